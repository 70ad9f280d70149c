// A job that was run, part by part against its prediction.
#pragma once

#include <optional>

#include "execute/validation.hpp"

namespace foretrain {

// None where the record is not one of a job. `repredict` is asked only where it is.
std::optional<JobRow> job_row(const FiledRecord& filed, const Repredict& repredict);

}  // namespace foretrain

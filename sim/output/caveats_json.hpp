// What a row of a plan or a comparison rests on that was not measured, as a result has it.
#pragma once

#include <span>
#include <string>

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// Members "warnings" and "extrapolated" of the object that is open.
void write_caveats(JsonWriter& writer, std::span<const std::string> warnings,
                   std::span<const Extrapolation> extrapolated);

}  // namespace foretrain

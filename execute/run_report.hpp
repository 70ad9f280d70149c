// What a run record says for the report: what was sampled, and what was predicted of it.
#pragma once

#include "execute/run_record.hpp"
#include "sim/output/html_measured.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// `predicted`: the record's own prediction, where it has one.
MeasuredRun measured_run(const RunRecord& record, const Result* predicted);

// Nothing where the record has no prediction or no counted step.
std::optional<MeasuredRow> measured_row(const RunRecord& record);

}  // namespace foretrain

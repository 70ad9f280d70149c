// What a run's measurements show by themselves: steps that stand out and why, memory that keeps growing.
#pragma once

#include <cstdint>
#include <vector>

#include "execute/run_record.hpp"

namespace foretrain {

// Steps of the slowest rank more than 20 % above the median, or below, and more than five robust standard
// deviations away. Causes: an evaluation, a checkpoint or a look at the loss right before, a batch that was
// not ready or was short (counted steps, ascending), the first step.
std::vector<MonitorFinding> step_findings(const RunRecord& record,
                                          const std::vector<std::int64_t>& late_batches,
                                          const std::vector<std::int64_t>& short_batches = {});

// Memory series that rise after the first counted step: a least-squares slope that is positive by more than
// four standard errors, with a rise over the run above 1 % and 16 MiB.
std::vector<MonitorFinding> leak_findings(const std::vector<MonitorSeries>& monitor);

}  // namespace foretrain

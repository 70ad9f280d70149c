// A prediction as scalars over updates, so that it lies in one plot with a run: step_time_s, samples_per_s,
// batch, workers, and the loss or accuracy where the job has a curve.
#pragma once

#include <vector>

#include "sim/output/event_file.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// Without a job 100 updates. Wall times are those of the job, from 0.
std::vector<ScalarEvent> scalars_of(const Result& result);

}  // namespace foretrain

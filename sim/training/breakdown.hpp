// What a rank's step was spent on, instant by instant of its compute stream.
#pragma once

#include "sim/output/result.hpp"
#include "sim/training/replay.hpp"

namespace foretrain {

struct StepUse {
  Breakdown breakdown;            // sums to the step
  double computing = 0;           // seconds with a kernel on the compute stream
  double communicating = 0;       // seconds with a collective, waiting included
  double busy = 0;                // seconds with either
  double collective_running = 0;  // seconds with a collective that all have joined
};

// Of one class in its reported step. At each instant: a kernel runs: its phase; else input is missing: input;
// else a collective that not all have joined: waiting; else a collective runs: exposed communication; else
// host.
StepUse step_use(const ReplayInput& input, const ReplayResult& result, int rank_class);

}  // namespace foretrain

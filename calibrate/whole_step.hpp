// The whole step as a training loop issues it, with an event at the end of each step and no other instrument;
// and the load under which clocks settle before anything is timed.
#pragma once

#include <vector>

#include "calibrate/session.hpp"
#include "calibrate/step_plan.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct SoakOptions {
  double least = 0.3, most = 3;  // seconds of load
  double window = 0.1;           // seconds over which step times are compared
  double expected_step = 0;      // seconds; where long, fewer steps
};

struct SoakReport {
  double seconds = 0;
  double step = 0;  // median of the last window
  bool settled = false;
};

// Runs steps until the medians of two windows in a row agree within 0.3 % and the clock within 1 %, or the
// time is up.
SoakReport soak(Session& session, StepPlan& plan, device::Backend& backend, int device,
                const SoakOptions& options);

struct WholeStep {
  Sample step;
  double p05 = 0, p95 = 0;
  std::vector<double> steps;  // single ones, in order
};

// At most two steps are issued ahead. Stops at 0.15 % error of the median or when `seconds` are over, with
// at least 12 steps, or 5 where 12 of `expected_step` seconds do not fit.
WholeStep measure_whole_step(Session& session, StepPlan& plan, double seconds, double expected_step = 0);

// The same steps captured as one graph, and the time of the host to launch one on an idle device. No
// repetitions where the backend cannot capture them. The plan stays captured.
struct CapturedStep {
  Sample step, host;
};
CapturedStep measure_captured_step(Session& session, StepPlan& plan, double seconds);

}  // namespace foretrain::calibrate

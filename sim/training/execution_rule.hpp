// What the host and the way of execution make of a profile's host times, before anything is simulated.
#pragma once

#include "sim/input/scenario.hpp"

namespace foretrain {

// How much longer the host takes to launch a worker's step than in calibration, where each worker has a
// process and a core of its own: the workers that share a launching thread, or the launching threads that
// share a core. `workers`: of the job; those of the fullest node count.
double launching_factor(const Scenario& scenario, int workers);

// The scenario with the profile as it would be by launching_factor and, where the step is captured as one
// CUDA graph, with one launch for all of it. Where calibration has measured captured steps of the model, its
// passes take what is left of them, in proportion, and the launch what the host took; where it has not, the
// launch is one kernel's and passes take as long as before (assumed, and a warning says so). The same where
// neither applies; a step-time profile knows of no launches and stays.
// Whether the profile has captured steps of the scenario's model and precision.
bool has_captured_steps(const Scenario& scenario);

struct ExecutedScenario {
  ExecutedScenario(const Scenario& scenario, int workers);
  const Scenario& operator*() const { return changed ? *changed : *given; }

  const Scenario* given;
  std::shared_ptr<const Scenario> changed;  // null where nothing does
};

}  // namespace foretrain

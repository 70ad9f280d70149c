// From a scenario to a prediction: the one way in for everything that predicts.
#pragma once

#include <cstdint>

#include "sim/input/scenario.hpp"
#include "sim/output/result.hpp"
#include "sim/output/timeline.hpp"

namespace foretrain {

struct PredictOptions {
  std::uint64_t seed = 1;
  Timeline* timeline = nullptr;  // filled with one step where given
  bool remedies = true;          // simulate what would make the step faster
};

// The step alone, of a job's other batches and numbers of workers.
StepPrediction predict_step(const Scenario& scenario);

// One step of the scenario, without its job (sim/job/predict_job.hpp). Throws Error: input where it asks for
// what is not simulated, unavailable where the profile lacks a part.
Result predict(const Scenario& scenario, const PredictOptions& options = {});

}  // namespace foretrain

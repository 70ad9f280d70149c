// From a scenario to a prediction: the one way in for everything that predicts.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/input/scenario.hpp"
#include "sim/output/result.hpp"
#include "sim/output/timeline.hpp"

namespace foretrain {

class CollectiveModel;
struct StepChange;

struct PredictOptions {
  std::uint64_t seed = 1;
  Timeline* timeline = nullptr;  // filled with one step where given
  bool remedies = true;          // simulate what would make the step faster
  // Where given, the network as it was prepared for this step is put there, for others on the same cluster.
  std::shared_ptr<const CollectiveModel>* network = nullptr;
};

// The step alone, of a job's other batches and numbers of workers. `network` is that of the scenario's
// cluster, prepared here where it is null.
StepPrediction predict_step(const Scenario& scenario, const StepChange& change,
                            std::shared_ptr<const CollectiveModel>& network);

// One step of the scenario, without its job (sim/job/predict_job.hpp). Throws Error: input where it asks for
// what is not simulated, unavailable where the profile lacks a part.
Result predict(const Scenario& scenario, const PredictOptions& options = {});

}  // namespace foretrain

#include "sim/training/prediction_kind.hpp"

namespace foretrain {
namespace {

std::string work_of(const Scenario& scenario) {
  if (scenario.step_times || !scenario.model) return "given step times";
  if (scenario.model->input.empty()) return "traced work";  // of no shapes
  std::string work = scenario.execution.cuda_graph ? "captured " : "";
  work += scenario.model->sequence > 0 ? "sequences" : "images";
  return scenario.lengths ? work + " of unequal lengths" : work;
}

std::string place_of(const Scenario& scenario) {
  const std::string device = scenario.profile ? scenario.profile->device : "";
  const bool is_gpu = device == "cuda";
  const auto workers = scenario.cluster.topology.workers.size();
  std::string place = "several nodes";
  if (workers == 1) {
    place = is_gpu ? "one GPU" : "one worker";
  } else if (scenario.cluster.topology.nodes < 2) {
    place = is_gpu ? "GPUs of a node" : "workers of a node";
  }
  return device == "cpu" ? place + " on processors" : place;
}

}  // namespace

std::string kind_of(const Scenario& scenario) {
  const bool is_usual =
      scenario.strategy.kind == StrategyKind::ddp || scenario.cluster.topology.workers.size() == 1;
  return work_of(scenario) + ", " + place_of(scenario) +
         (is_usual ? std::string() : std::string(", ") + name_of(scenario.strategy.kind));
}

}  // namespace foretrain

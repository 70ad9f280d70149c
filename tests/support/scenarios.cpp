#include "tests/support/scenarios.hpp"

#include "sim/network/families.hpp"

namespace foretrain::test {

Scenario made_scenario(const Model& model, StrategyKind strategy, int workers,
                       std::int64_t batch_per_worker) {
  Scenario scenario;
  scenario.name = model.name;
  scenario.model = std::make_shared<const Model>(model);
  scenario.batch_per_worker = batch_per_worker;
  scenario.batch_global = batch_per_worker * workers;
  scenario.cluster.topology = make_topology(OneNode{.workers = workers});
  scenario.cluster.family = "one-node";
  scenario.strategy.kind = strategy;
  scenario.optimizer = model.optimizer;
  return scenario;
}

}  // namespace foretrain::test

#include "sim/training/prediction_kind.hpp"

#include <doctest/doctest.h>

#include "sim/input/sequence_lengths.hpp"
#include "sim/network/families.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;

TEST_CASE("a prediction's kind is what is trained and where") {
  Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 1, 16);
  auto profile = test::made_profile(*scenario.model, {16});
  const auto on = [&](const char* device) {
    profile.device = device;
    scenario.profile = std::make_shared<const Profile>(profile);
  };
  on("cuda");
  CHECK(kind_of(scenario) == "images, one GPU");
  on("cpu");
  CHECK(kind_of(scenario) == "images, one worker on processors");
  scenario.strategy.kind = StrategyKind::parameter_server;  // nothing that one worker would notice
  CHECK(kind_of(scenario) == "images, one worker on processors");
  scenario.cluster.topology = make_topology(OneNode{.workers = 4});
  CHECK(kind_of(scenario) == "images, workers of a node on processors, parameter_server");
  scenario.strategy.kind = StrategyKind::ddp;
  on("cuda");
  CHECK(kind_of(scenario) == "images, GPUs of a node");
  scenario.cluster.topology.nodes = 2;
  scenario.execution.cuda_graph = true;
  CHECK(kind_of(scenario) == "captured images, several nodes");
  Model model = *scenario.model;
  model.sequence = 128;
  scenario.model = std::make_shared<const Model>(model);
  CHECK(kind_of(scenario) == "captured sequences, several nodes");
  scenario.execution.cuda_graph = false;
  scenario.lengths = std::make_shared<const SequenceLengths>();
  CHECK(kind_of(scenario) == "sequences of unequal lengths, several nodes");
  model.input.clear();
  scenario.model = std::make_shared<const Model>(model);
  CHECK(kind_of(scenario) == "traced work, several nodes");
  scenario.step_times = std::make_shared<const StepTimeProfile>();
  scenario.profile = nullptr;
  CHECK(kind_of(scenario) == "given step times, several nodes");
}

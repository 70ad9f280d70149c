#include <doctest/doctest.h>

#include "sim/training/replay.hpp"
#include "sim/training/strategies.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

StepItem item(Phase phase, double seconds) {
  StepItem item;
  item.phase = phase;
  item.device = seconds;
  item.launches = 1;
  return item;
}

// Forward 10 ms, backward 20 ms over two layers of one parameter each, update 1 ms.
StepTimes made_times() {
  StepTimes times;
  times.forward = {item(Phase::forward, 10e-3)};
  times.backward = {item(Phase::backward, 12e-3), item(Phase::backward, 8e-3)};
  times.update = {item(Phase::optimizer, 1e-3)};
  times.gradient_ready = {1, 0};
  times.parameter_elements = {1000, 500};
  return times;
}

StrategyInput made_input(const StepTimes& times, int workers) {
  StrategyInput input;
  input.times = &times;
  input.workers = workers;
  input.buckets = {{{1}, Bytes(2000), 0}, {{0}, Bytes(4000), 1}};
  return input;
}

// Reduce: 3 ms, broadcast: 2 ms each, all-reduce 4 ms.
double step_of(const StepGraph& graph) {
  validate(graph);
  ReplayInput input = plain_replay(graph);
  input.timer = [](const ProcessGroup&, const Operation& operation) {
    CollectiveTiming timing;
    const bool sums = operation.kind == CollectiveKind::reduce,
               sends = operation.kind == CollectiveKind::broadcast;
    timing.alone = Time::seconds(sums ? 3e-3 : sends ? 2e-3 : 4e-3);
    return timing;
  };
  return replay(input).step.in_seconds();
}

}  // namespace

TEST_CASE("a parameter server's step: sums beside backward, then the update, then weights to all") {
  const StepTimes times = made_times();
  // 10 + 20, the second sum 3 after backward, update 1, two broadcasts of 2.
  for (int workers : {2, 3, 5}) {
    const StepGraph graph = parameter_server_step_graph(made_input(times, workers));
    CHECK(graph.programs.size() == 2);
    CHECK(step_of(graph) == approx(38e-3).epsilon(1e-9));
  }
  CHECK(step_of(ddp_step_graph(made_input(times, 2))) == approx(35e-3).epsilon(1e-9));
}

TEST_CASE("buckets are dealt out among servers; weights travel in fp32") {
  const StepTimes times = made_times();
  StrategyInput input = made_input(times, 3);
  input.servers = 2;
  const StepGraph graph = parameter_server_step_graph(input);
  CHECK(graph.program_of_rank == std::vector<int>{0, 1, 2});
  // Each updates its own: 500 and 1,000 of 1,500 parameters.
  std::vector<double> updates;
  for (const RankProgram& program : graph.programs) {
    for (const Operation& operation : program.operations) {
      if (operation.phase == Phase::optimizer && operation.launches > 0)
        updates.push_back(operation.device.in_seconds());
    }
  }
  REQUIRE(updates.size() == 2);
  CHECK(updates[0] == approx(1e-3 / 3).epsilon(1e-6));
  CHECK(updates[1] == approx(2e-3 / 3).epsilon(1e-6));
  CHECK(step_of(graph) == approx(37.667e-3).epsilon(1e-4));
  std::vector<std::pair<int, std::int64_t>> sums, weights;
  for (const Operation& operation : graph.programs[2].operations) {
    if (operation.kind == CollectiveKind::reduce) sums.emplace_back(operation.root, operation.bytes.count());
    if (operation.kind == CollectiveKind::broadcast)
      weights.emplace_back(operation.root, operation.bytes.count());
  }
  CHECK(sums == std::vector<std::pair<int, std::int64_t>>{{0, 2000}, {1, 4000}});
  CHECK(weights == std::vector<std::pair<int, std::int64_t>>{{0, 2000}, {1, 4000}});
}

TEST_CASE("accumulated passes communicate once") {
  const StepTimes times = made_times();
  StrategyInput input = made_input(times, 2);
  input.accumulation = 3;
  CHECK(step_of(ddp_step_graph(input)) == approx((35 + 2 * 30) * 1e-3).epsilon(1e-9));
  CHECK(step_of(independent_step_graph(input)) == approx(91e-3).epsilon(1e-9));
  CHECK(step_of(parameter_server_step_graph(input)) == approx(98e-3).epsilon(1e-9));
}

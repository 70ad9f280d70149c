// The cost of one data-parallel step in the engine: as a function of the number of ranks, with all ranks
// alike and with every rank's compute time its own.
#include <benchmark/benchmark.h>

#include "sim/base/random.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/network/families.hpp"
#include "sim/training/replay.hpp"
#include "sim/training/step_simulation.hpp"

using namespace foretrain;

namespace {

// As ResNet-50 in bf16: 110 kernels forward, 160 backward, 5 buckets.
StepGraph resnet_like(int ranks) {
  StepGraph graph;
  RankProgram program;
  std::vector<int> collectives;
  auto kernel = [&](Phase phase, double us) {
    Operation op;
    op.phase = phase;
    op.host = Time::microseconds(6);
    op.device = Time::microseconds(us);
    program.operations.push_back(op);
    return static_cast<int>(program.operations.size()) - 1;
  };
  for (int i = 0; i < 110; ++i) kernel(Phase::forward, 60);
  for (int i = 0; i < 160; ++i) {
    const int last = kernel(Phase::backward, 80);
    if (i % 32 == 31) {
      Operation op;
      op.phase = Phase::communication;
      op.stream = StreamId::communication;
      op.after = {last};
      op.group = 0;
      op.bytes = Bytes(20'000'000);
      collectives.push_back(static_cast<int>(program.operations.size()));
      program.operations.push_back(op);
    }
  }
  const int update = kernel(Phase::optimizer, 100);
  program.operations[static_cast<std::size_t>(update)].after = collectives;
  graph.programs.push_back(program);
  graph.program_of_rank.assign(static_cast<std::size_t>(ranks), 0);
  ProcessGroup world{"data", {}};
  for (int r = 0; r < ranks; ++r) world.ranks.push_back(r);
  graph.groups.push_back(world);
  return graph;
}

// Between nodes kernels do not slow collectives; within a node they do.
CollectiveTimer timer(double collective_slowdown) {
  return [collective_slowdown](const ProcessGroup&, const Operation&) {
    return CollectiveTiming{Time::microseconds(4000), 1.05, collective_slowdown, Time()};
  };
}

void all_alike(benchmark::State& state) {
  const StepGraph graph = resnet_like(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    ReplayInput input = symmetric_replay(graph);
    input.timer = timer(1.1);
    benchmark::DoNotOptimize(replay(input).step);
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(all_alike)->RangeMultiplier(8)->Range(64, 65536)->Unit(benchmark::kMillisecond)->Complexity();

// A step of ResNet-50 from the description of the cluster to the answer: nodes of 8 H100 on a fat tree are
// built, routed, their collectives timed and four steps replayed. The profile is in memory.
void step_of_a_cluster(benchmark::State& state) {
  const Catalog catalog({FORETRAIN_SOURCE_DIR});
  Diagnostics diagnostics;
  const auto read = parse_scenario(
      "model: resnet50\nprofile: h100\nprecision: bf16\nbatch: { per_worker: 64 }\n"
      "cluster: { topology: dgx-h100, nodes: 1 }\n",
      "bench", catalog, {}, diagnostics);
  Scenario scenario = *read;
  FabricNodes family;
  family.nodes.nodes = static_cast<int>(state.range(0) / 8);
  family.nodes.gpus_per_node = family.nodes.nics = 8;
  family.nodes.network = {Rate::bits_per_second(400e9), Time::microseconds(1), Transport::rdma, {}};
  family.shape = FatTreeShape{};
  scenario.batch_global = 64 * state.range(0);
  for (auto _ : state) {
    scenario.cluster.topology = make_topology(family);
    benchmark::DoNotOptimize(StepSimulation(scenario).run().seconds);
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(step_of_a_cluster)
    ->RangeMultiplier(8)
    ->Range(1024, 65536)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

void distinct(benchmark::State& state, double collective_slowdown) {
  const StepGraph graph = resnet_like(static_cast<int>(state.range(0)));
  RandomStream random(1);
  std::uint64_t events = 0;
  for (auto _ : state) {
    ReplayInput input = plain_replay(graph);
    input.timer = timer(collective_slowdown);
    input.recorded_class = 0;
    for (RankClass& rank : input.classes) {
      rank.compute_factor = 1 + 0.01 * random.uniform() + (random.uniform() < 0.01 ? 0.3 : 0);
    }
    const ReplayResult result = replay(input);
    events += result.events;
    benchmark::DoNotOptimize(result.step);
  }
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.SetComplexityN(state.range(0));
}
void every_rank_distinct(benchmark::State& state) {
  distinct(state, 1);
}
BENCHMARK(every_rank_distinct)
    ->RangeMultiplier(4)
    ->Range(64, 16384)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

void every_rank_distinct_and_collectives_slowed(benchmark::State& state) {
  distinct(state, 1.1);
}
BENCHMARK(every_rank_distinct_and_collectives_slowed)
    ->RangeMultiplier(4)
    ->Range(64, 1024)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

}  // namespace

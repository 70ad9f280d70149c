// Ranks that go by clocks of their own against one clock for all, which replays collectives that share links:
// a sharing that costs nothing takes that way.
#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "sim/training/breakdown.hpp"
#include "sim/training/replay.hpp"

using namespace foretrain;

namespace {

Operation random_kernel(RandomStream& random) {
  Operation op;
  op.host = Time::microseconds(random.uniform() < 0.2 ? 60 * random.uniform() : 6);
  op.device = Time::microseconds(random.uniform() < 0.1 ? 0 : 80 * random.uniform());
  op.launches = random.uniform() < 0.3 ? 3 : 1;
  return op;
}

// Kernels of uneven times, a collective after every tenth or so, some of which later kernels wait for.
RankProgram random_program(RandomStream& random, int kernels) {
  RankProgram program;
  std::vector<int> open;
  for (int k = 0; k < kernels; ++k) {
    program.operations.push_back(random_kernel(random));
    if (!open.empty() && random.uniform() < 0.05) {
      program.operations.back().after = open;
      open.clear();
    }
    if (random.uniform() < 0.1) {
      const auto last = static_cast<int>(program.operations.size()) - 1;
      Operation op;
      op.stream = random.uniform() < 0.2 ? StreamId::copy : StreamId::communication;
      op.after = {last};
      op.host = Time::microseconds(10);
      if (op.stream == StreamId::communication) {
        op.group = 0;
        op.bytes = Bytes(1 + static_cast<std::int64_t>(1e6 * random.uniform()));
      } else {
        op.device = Time::microseconds(30);
      }
      open.push_back(last + 1);
      program.operations.push_back(op);
    }
  }
  program.operations.push_back(random_kernel(random));
  program.operations.back().after = open;
  return program;
}

ReplayInput random_input(RandomStream& random, const StepGraph& graph) {
  ReplayInput input = plain_replay(graph);
  for (RankClass& rank : input.classes) {
    rank.compute_factor = 1 + 0.3 * random.uniform();
    rank.host_factor = random.uniform() < 0.5 ? 1 : 1 + random.uniform();
  }
  const double slows = 0.4 * random.uniform(), slowed = random.uniform() < 0.2 ? 0 : random.uniform();
  const Time wait = Time::microseconds(random.uniform() < 0.5 ? 0 : 30 * random.uniform());
  input.timer = [=](const ProcessGroup&, const Operation& op) {
    return CollectiveTiming{Time::microseconds(1e-3 * static_cast<double>(op.bytes.count())), 1 + slows,
                            1 + slowed, Time::microseconds(5), wait};
  };
  input.launch_latency = Time::microseconds(3);
  input.queue_depth = random.uniform() < 0.5 ? 1024 : 20;
  return input;
}

}  // namespace

TEST_CASE("clocks of their own and one clock for all give the same picoseconds") {
  RandomStream random(7);
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    const int ranks = 1 + trial % 5;
    StepGraph graph;
    graph.programs.push_back(random_program(random, 20 + trial));
    graph.program_of_rank.assign(static_cast<std::size_t>(ranks), 0);
    ProcessGroup world{"world", {}};
    for (int r = 0; r < ranks; ++r) world.ranks.push_back(r);
    graph.groups.push_back(world);
    validate(graph);
    ReplayInput input = random_input(random, graph);
    const ReplayResult apart = replay(input);
    input.keeps_slices = false;  // kernels that pass without being queued
    const ReplayResult quick = replay(input);
    input.keeps_slices = true;
    input.sharing = [](std::span<const RunningCollective> running) {
      return std::vector<double>(running.size(), 1.0);
    };
    const ReplayResult together = replay(input);
    CHECK(apart.step == together.step);
    CHECK(quick.step == together.step);
    CHECK(apart.slowest == together.slowest);
    CHECK(quick.slowest == together.slowest);
    for (std::size_t c = 0; c < together.classes.size(); ++c) {
      CHECK(apart.classes[c].begin == together.classes[c].begin);
      CHECK(apart.classes[c].end == together.classes[c].end);
      CHECK(quick.classes[c].begin == together.classes[c].begin);
      CHECK(quick.classes[c].end == together.classes[c].end);
    }
    REQUIRE(apart.slices.size() == together.slices.size());
    for (std::size_t c = 0; c < together.classes.size(); ++c) {
      const StepUse a = step_use(input, apart, static_cast<int>(c)),
                    b = step_use(input, together, static_cast<int>(c));
      CHECK(a.breakdown.waiting == b.breakdown.waiting);
      CHECK(a.breakdown.exposed_communication == b.breakdown.exposed_communication);
      CHECK(a.busy == b.busy);
    }
  }
}

#include "sim/training/replay.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/training/breakdown.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Operation kernel(Phase phase, double host_us, double device_us, int launches = 1) {
  Operation op;
  op.name = name_of(phase);
  op.phase = phase;
  op.host = Time::microseconds(host_us);
  op.device = Time::microseconds(device_us);
  op.launches = launches;
  return op;
}

Operation collective(int after, std::int64_t bytes = 1000) {
  Operation op;
  op.name = "all_reduce";
  op.phase = Phase::communication;
  op.stream = StreamId::communication;
  op.after = {after};
  op.group = 0;
  op.bytes = Bytes(bytes);
  return op;
}

StepGraph one_group(std::vector<RankProgram> programs, std::vector<int> program_of_rank) {
  StepGraph graph;
  ProcessGroup world{"world", {}};
  for (std::size_t r = 0; r < program_of_rank.size(); ++r) world.ranks.push_back(static_cast<int>(r));
  graph.groups.push_back(world);
  graph.programs = std::move(programs);
  graph.program_of_rank = std::move(program_of_rank);
  validate(graph);
  return graph;
}

RankProgram two_buckets() {
  RankProgram program;
  program.operations = {kernel(Phase::forward, 1, 100),
                        kernel(Phase::backward, 1, 100),
                        kernel(Phase::backward, 1, 100),
                        collective(1),
                        collective(2),
                        kernel(Phase::optimizer, 1, 10)};
  program.operations[5].after = {3, 4};
  return program;
}

CollectiveTimer takes(double us, double compute_slowdown = 1, double collective_slowdown = 1) {
  return [=](const ProcessGroup&, const Operation&) {
    return CollectiveTiming{Time::microseconds(us), compute_slowdown, collective_slowdown, Time()};
  };
}

double us(double seconds) {
  return seconds * 1e6;
}

}  // namespace

// forward 100, backward 2 x 100, two collectives of 150 one after the other, update 10. The first collective
// starts after the first backward kernel (200), ends at 350, the second 350 to 500, the update ends at 510.
TEST_CASE("collectives overlap with backward and run one after the other") {
  const StepGraph graph = one_group({two_buckets()}, {0, 0});
  ReplayInput input = plain_replay(graph);
  input.timer = takes(150);
  const ReplayResult result = replay(input);
  CHECK(result.step == Time::microseconds(510));
  CHECK(result.steady);
  const StepUse use = step_use(input, result, 0);
  CHECK(us(use.breakdown.forward) == approx(100));
  CHECK(us(use.breakdown.backward) == approx(200));
  CHECK(us(use.breakdown.optimizer) == approx(10));
  CHECK(us(use.breakdown.exposed_communication) == approx(200));
  CHECK(us(use.breakdown.host) == doctest::Approx(0));
  CHECK(us(use.breakdown.total()) == approx(510));
  CHECK(us(use.collective_running) == approx(300));
}

// While a collective runs, kernels take 1.25 times as long; beside a kernel, a collective takes 1.5 times as
// long. Backward 2 runs from 200 beside collective 1: 100 x 1.25 ends at 325. Collective 1 has done 125 / 1.5
// = 83.33 of 150 by then; the rest takes 66.67: it ends at 391.67. Collective 2 runs alone: 541.67. Update:
// 551.67.
TEST_CASE("interference stretches both sides while they overlap, and only then") {
  const StepGraph graph = one_group({two_buckets()}, {0, 0});
  ReplayInput input = plain_replay(graph);
  input.timer = takes(150, 1.25, 1.5);
  const ReplayResult result = replay(input);
  CHECK(us(result.step.in_seconds()) == approx(551.6667).epsilon(1e-6));
}

// The host needs 30 us a launch, ten launches a step; kernels take 5 us: a step takes 300 us, of which 50 are
// work.
TEST_CASE("a step is bound by the host when the device drains its queue") {
  RankProgram program;
  program.operations = {kernel(Phase::forward, 90, 15, 3), kernel(Phase::backward, 180, 30, 6),
                        kernel(Phase::optimizer, 30, 5)};
  const StepGraph graph = one_group({program}, {0});
  ReplayInput input = plain_replay(graph);
  input.timer = takes(0);
  input.launch_latency = Time::microseconds(4);
  const ReplayResult result = replay(input);
  CHECK(us(result.step.in_seconds()) == approx(300));
  const StepUse use = step_use(input, result, 0);
  CHECK(us(use.breakdown.host) == approx(250));
  CHECK(us(use.breakdown.total()) == approx(300));
}

TEST_CASE("a step that the device bounds does not depend on the host") {
  RankProgram program;
  program.operations = {kernel(Phase::forward, 5, 300, 3), kernel(Phase::backward, 10, 600, 6)};
  const StepGraph graph = one_group({program}, {0});
  ReplayInput input = plain_replay(graph);
  input.timer = takes(0);
  const Time first = replay(input).step;
  input.classes[0].host_factor = 10;
  CHECK(replay(input).step == first);
  CHECK(us(first.in_seconds()) == approx(900));
  input.queue_depth = 12;  // a short queue still keeps the device fed
  CHECK(replay(input).step == first);
}

// Rank 1 computes 20 % slower: backward 1 ends at 240 on it, 200 on rank 0, which waits for 40.
TEST_CASE("a step is set by the slowest rank; the others wait") {
  const StepGraph graph = one_group({two_buckets()}, {0, 0});
  ReplayInput input = plain_replay(graph);
  input.timer = takes(150);
  input.classes[1].compute_factor = 1.2;
  const ReplayResult result = replay(input);
  CHECK(result.slowest == 1);
  CHECK(us(result.step.in_seconds()) == approx(240 + 300 + 12));
  CHECK(us(step_use(input, result, 1).breakdown.waiting) == doctest::Approx(0));
  const StepUse fast = step_use(input, result, 0);
  CHECK(us(fast.communicating - fast.collective_running) > 10);
  CHECK(us(fast.breakdown.total()) == approx(us(result.classes[0].duration().in_seconds())));
}

TEST_CASE("the symmetric shortcut agrees with the plain replay to the picosecond") {
  RandomStream random(11);
  for (int round = 0; round < 50; ++round) {
    RankProgram program;
    std::vector<int> collectives;
    const int kernels = 5 + static_cast<int>(random.next() % 20);
    for (int i = 0; i < kernels; ++i) {
      program.operations.push_back(kernel(i * 2 < kernels ? Phase::forward : Phase::backward,
                                          random.uniform() * 20, random.uniform() * 30,
                                          1 + static_cast<int>(random.next() % 4)));
      if (i * 2 >= kernels && random.uniform() < 0.4) {
        const int last = static_cast<int>(program.operations.size()) - 1;
        program.operations.push_back(collective(last, 100));
        collectives.push_back(last + 1);
      }
    }
    program.operations.push_back(kernel(Phase::optimizer, 1, 5));
    program.operations.back().after = collectives;
    const StepGraph graph = one_group({program}, std::vector<int>(7, 0));
    const CollectiveTimer timer = takes(40 * random.uniform(), 1 + random.uniform(), 1 + random.uniform());
    ReplayInput plain = plain_replay(graph), symmetric = symmetric_replay(graph);
    plain.timer = symmetric.timer = timer;
    plain.launch_latency = symmetric.launch_latency = Time::microseconds(3);
    const ReplayResult all = replay(plain), one = replay(symmetric);
    CHECK(symmetric.classes.size() == 1);
    CHECK(symmetric.classes[0].count == 7);
    CHECK(all.step == one.step);
    for (const RankStep& rank : all.classes) CHECK(rank.duration() == one.step);
    const StepUse use = step_use(symmetric, one, 0);
    CHECK(use.breakdown.total() == approx(one.step.in_seconds()).epsilon(1e-9));
  }
}

// Ours takes 100 us alone, every 100 us of kernels; theirs the same, begun 50 us later by a longer kernel.
// While both run each goes at half its pace: 50 us alone, then 100 us in which both do 50.
TEST_CASE("collectives of two jobs that run at one time share, and the other job goes on") {
  StepGraph graph;
  for (int job = 0; job < 2; ++job) {
    RankProgram program;
    program.operations = {kernel(Phase::backward, 1, job == 0 ? 100 : 150), collective(0),
                          kernel(Phase::optimizer, 1, 1000)};
    program.operations[1].group = job;
    program.operations[2].after = {1};
    graph.programs.push_back(program);
    graph.groups.push_back({"job", {2 * job, 2 * job + 1}});
    graph.program_of_rank.insert(graph.program_of_rank.end(), {job, job});
  }
  validate(graph);
  ReplayInput input = symmetric_replay(graph);
  input.timer = takes(100);
  const double alone = replay(input).step.in_seconds();
  input.own_classes = 1;
  input.steps = 2;
  std::size_t most = 0;
  input.sharing = [&](std::span<const RunningCollective> running) {
    most = std::max(most, running.size());
    return std::vector<double>(running.size(), running.size() == 2 ? 2.0 : 1.0);
  };
  const ReplayResult result = replay(input);
  CHECK(most == 2);
  REQUIRE(result.classes.size() == 1);
  // The first step: 1 us to launch, the kernel, 150 us, the update.
  CHECK(result.classes[0].begin.in_seconds() == approx(1251e-6));
  input.sharing = [](std::span<const RunningCollective> running) {
    return std::vector<double>(running.size(), 1.0);
  };
  input.steps = 6;
  CHECK(replay(input).step.in_seconds() == approx(1200e-6));
  CHECK(alone == approx(1250e-6));
}

TEST_CASE("all times x 3 give a result x 3") {
  RankProgram program = two_buckets();
  const StepGraph graph = one_group({program}, {0, 0});
  ReplayInput input = plain_replay(graph);
  input.timer = takes(150, 1.2, 1.3);
  const Time once = replay(input).step;
  for (Operation& op : program.operations) {
    op.host = op.host * 3;
    op.device = op.device * 3;
  }
  const StepGraph larger = one_group({program}, {0, 0});
  ReplayInput tripled = plain_replay(larger);
  tripled.timer = takes(450, 1.2, 1.3);
  CHECK(std::abs(replay(tripled).step.count() - 3 * once.count()) <= 10);
}

TEST_CASE("graphs that cannot finish or disagree are errors") {
  RankProgram alone;
  alone.operations = {kernel(Phase::forward, 1, 1)};
  CHECK_THROWS_WITH_AS(one_group({two_buckets(), alone}, {0, 1}), doctest::Contains("disagree"), Error);
  RankProgram forward_reference;
  forward_reference.operations = {kernel(Phase::forward, 1, 1)};
  forward_reference.operations[0].after = {0};
  CHECK_THROWS_WITH_AS(one_group({forward_reference}, {0}), doctest::Contains("issued after it"), Error);
}

// As in the first case, but a collective that comes after a pause takes 20 more: the first starts at 200 and
// ends at 370; the second was waiting by then and takes 150, to 520; the update ends at 530.
TEST_CASE("a collective after a pause takes longer than one of a chain") {
  const StepGraph graph = one_group({two_buckets()}, {0, 0});
  ReplayInput input = plain_replay(graph);
  input.timer = [](const ProcessGroup&, const Operation&) {
    return CollectiveTiming{Time::microseconds(150), 1, 1, Time::microseconds(20)};
  };
  CHECK(replay(input).step == Time::microseconds(530));
}

// The first collective, of 50, could start at 200 and waits until 220: backward has 80 left and takes twice
// as long beside it, so that 55 are left at 270 and it ends at 325. So the second starts at 345 and ends at
// 395, the update at 405.
TEST_CASE("a collective that ranks wait for after a pause begins later, and slows nothing until then") {
  const StepGraph graph = one_group({two_buckets()}, {0, 0});
  for (const bool shares : {false, true}) {
    CAPTURE(shares);
    ReplayInput input = plain_replay(graph);
    CollectiveTiming timing{Time::microseconds(50), 2, 1, Time()};
    timing.wait = Time::microseconds(20);
    input.timer = [&](const ProcessGroup&, const Operation&) { return timing; };
    // Others to share links with make all ranks' clocks one.
    if (shares) {
      input.sharing = [](std::span<const RunningCollective> running) {
        return std::vector<double>(running.size(), 1.0);
      };
    }
    input.keeps_slices = true;
    const ReplayResult result = replay(input);
    CHECK(result.step == Time::microseconds(405));
    const StepUse use = step_use(input, result, 0);
    CHECK(us(use.breakdown.waiting) == approx(20));  // of the second; the first's passes beside backward
    CHECK(us(use.breakdown.exposed_communication) == approx(50));
    CHECK(us(use.collective_running) == approx(100));
  }
}

TEST_CASE("a kernel of more launches than the queue holds is issued while a collective runs") {
  // 2,000 launches of 1 us on the host and on the device each, behind a collective of 1 ms that they need not
  // wait for.
  const auto step_of = [](int most_launches) {
    RankProgram program;
    program.operations = {kernel(Phase::backward, 1, 10), collective(0),
                          kernel(Phase::backward, 2000, 2000, 2000), kernel(Phase::optimizer, 1, 10)};
    program.operations[3].after = {1};
    split_long_operations(program, most_launches);
    StepGraph graph = one_group({program}, {0, 0});
    ReplayInput input = symmetric_replay(graph);
    input.timer = takes(1000);
    return replay(input).step.in_seconds() * 1e6;
  };
  CHECK(step_of(100000) > 3000);  // whole: it waits until the queue is empty
  CHECK(step_of(128) == approx(2020).epsilon(0.01));
}

TEST_CASE("splitting keeps times, launches and dependencies") {
  RankProgram program = two_buckets();
  program.operations[1] = kernel(Phase::backward, 7, 100, 1000);
  RankProgram split = program;
  split_long_operations(split, 300);
  CHECK(split.operations.size() == program.operations.size() + 3);
  Time host, device, whole_host, whole_device;
  int launches = 0, whole = 0;
  for (const Operation& op : split.operations) host += op.host, device += op.device, launches += op.launches;
  for (const Operation& op : program.operations)
    whole_host += op.host, whole_device += op.device, whole += op.launches;
  CHECK(host == whole_host);
  CHECK(device == whole_device);
  CHECK(launches == whole);
  CHECK(split.operations[6].after == std::vector<int>{4});  // the first bucket: after the last part
  CHECK(split.operations[8].after == std::vector<int>{6, 7});
  validate(one_group({split}, {0}));
}

#include "calibrate/collectives.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "calibrate/interference.hpp"
#include "calibrate/several_devices.hpp"
#include "sim/base/error.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;
using foretrain::test::approx;

namespace {

// LL below 96 KiB, Simple from there, unless told otherwise; 10 or 25 us and 50 or 100 GB/s.
test::FakeChoice two_protocols(CollectiveKind, std::int64_t bytes, int, const std::string& algorithm,
                               const std::string& protocol) {
  const bool simple = protocol.empty() ? bytes >= 96 << 10 : protocol == "Simple";
  const double seconds =
      simple ? 25e-6 + static_cast<double>(bytes) / 100e9 : 10e-6 + static_cast<double>(bytes) / 5e9;
  return {
      (algorithm.empty() ? "RING" : algorithm) +
          std::string(simple ? " proto SIMPLE channel{Lo..Hi}={0..7}" : " proto LL channel{Lo..Hi}={0..1}"),
      seconds};
}

std::vector<CollectiveEntry> run_curve(test::FakeBackend& backend, test::FakeClock& clock, int ranks,
                                       const CollectiveCurve& curve, const CollectiveOptions& options,
                                       double deadline = 1e9, int* left_out = nullptr) {
  std::vector<CollectiveEntry> result;
  const device::CommunicatorId id = backend.make_communicator_id();
  const SettingGuard guard(curve.setting);
  run_ranks(ranks, clock, [&](RankGroup& group) {
    const auto worker = backend.make_worker(group.rank());
    Session session{*worker, clock, nullptr, &group};
    const auto communicator = worker->join(id, group.rank(), ranks);
    int missing = 0;
    const Placement placement{ranks, 1, "nvlink", 0};
    auto entries = measure_curve(session, group, communicator.get(), worker->allocate(std::int64_t{2} << 30),
                                 curve, placement, options, deadline, missing);
    if (group.rank() == 0) {
      result = std::move(entries);
      if (left_out) *left_out = missing;
    }
  });
  return result;
}

}  // namespace

TEST_CASE("collective sizes double and divide among the ranks") {
  const auto two = collective_sizes(256, 1 << 30, 2);
  CHECK(two.size() == 23);
  CHECK(two.front() == 256);
  CHECK(two.back() == 1 << 30);
  for (const std::int64_t bytes : collective_sizes(256, 1 << 20, 3)) CHECK(bytes % 48 == 0);
}

TEST_CASE("times of collectives come out as they were put in, denser where the protocol changes") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 3;
  script.collective = two_protocols;
  test::FakeBackend backend(script, clock);
  for (const bool names : {true, false}) {
    CAPTURE(names);
    backend.script.names_choice = names;
    const auto entries = run_curve(backend, clock, 2, {}, {});
    CHECK(entries.size() == 23 + 2);
    for (const CollectiveEntry& entry : entries) {
      CAPTURE(entry.bytes);
      const double expected = two_protocols({}, entry.bytes, 2, "", "").seconds;
      // A chain's period holds the gap between two calls.
      CHECK(entry.time.median == approx(expected).epsilon(0.15));
      CHECK(entry.isolated.median == approx(expected + script.event_device + script.gap).epsilon(0.2));
      CHECK(entry.host == approx(script.collective_host).epsilon(0.01));
      CHECK(entry.kind == "all_reduce");
      CHECK(entry.ranks == 2);
      if (names) CHECK(entry.chosen_protocol == (entry.bytes >= 96 << 10 ? "Simple" : "LL"));
      if (names) CHECK(entry.chosen_algorithm == "ring");
      if (names) CHECK(entry.channels == (entry.bytes >= 96 << 10 ? 8 : 2));
    }
    if (names) {
      // Between 64 and 128 KiB: first 90.5 KiB, then between it and 128 KiB.
      CHECK(entries[9].bytes > 64 << 10);
      CHECK(entries[10].bytes < 128 << 10);
    }
  }
}

// Reductions take three times as long as broadcasts here: half a round is twice a broadcast.
TEST_CASE("a broadcast and a reduction alone are half of a round of both") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 2;
  script.collective = [](CollectiveKind kind, std::int64_t bytes, int, const std::string&,
                         const std::string&) {
    const double seconds = 20e-6 + static_cast<double>(bytes) / 100e9;
    return test::FakeChoice{"RING proto SIMPLE channel{Lo..Hi}={0..7}",
                            kind == CollectiveKind::reduce ? 3 * seconds : seconds};
  };
  test::FakeBackend backend(script, clock);
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    CollectiveCurve curve;
    curve.kind = kind;
    CollectiveOptions options;
    options.most_bytes = 1 << 20;
    for (const CollectiveEntry& entry : run_curve(backend, clock, 2, curve, options)) {
      const double one = 20e-6 + static_cast<double>(entry.bytes) / 100e9;
      CHECK(entry.time.median == approx(kind == CollectiveKind::reduce ? 3 * one : one).epsilon(0.1));
      CHECK(entry.isolated.median == approx(2 * one).epsilon(0.1));
    }
  }
}

TEST_CASE("the sizes of a job's buckets are measured too, in the collectives that carry them") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 2;
  script.collective = two_protocols;
  test::FakeBackend backend(script, clock);
  CollectiveOptions options;
  options.more_bytes = {2052000, 28852224, 1 << 20, std::int64_t{1} << 40};
  const auto entries = run_curve(backend, clock, 2, {}, options);
  CHECK(entries.size() == 23 + 2 + 2);
  const auto has = [&](std::int64_t bytes) {
    return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.bytes == bytes; });
  };
  CHECK(has(2052000));
  CHECK(has(28852224));
  CHECK(std::is_sorted(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return a.bytes < b.bytes; }));
  const auto measures = [&](const CollectiveCurve& curve) {
    const auto found = run_curve(backend, clock, 2, curve, options);
    return std::any_of(found.begin(), found.end(), [](const auto& e) { return e.bytes == 2052000; });
  };
  using device::ElementType;
  CHECK(measures({CollectiveKind::reduce, ElementType::fp32, {}}));
  CHECK(measures({CollectiveKind::broadcast, ElementType::fp32, {}}));
  CHECK_FALSE(measures({CollectiveKind::all_gather, ElementType::fp32, {}}));
  CHECK_FALSE(measures({CollectiveKind::all_reduce, ElementType::bf16, {}}));
  CHECK_FALSE(measures({CollectiveKind::all_reduce, ElementType::fp32, {"ring", "Simple"}}));
}

TEST_CASE("a forced algorithm and protocol is told to the library and forgotten after") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 2;
  script.collective = two_protocols;
  test::FakeBackend backend(script, clock);
  const auto entries = run_curve(backend, clock, 2,
                                 {CollectiveKind::all_reduce, device::ElementType::fp32, {"tree", "LL"}}, {});
  CHECK(entries.size() == 23);
  CHECK(entries.back().chosen_algorithm == "tree");
  CHECK(entries.back().chosen_protocol == "LL");
  CHECK(entries.back().algorithm == "tree");
  CHECK(entries.back().time.median > 0.2);
  CHECK(std::getenv("NCCL_ALGO") == nullptr);
  CHECK(std::getenv("NCCL_PROTO") == nullptr);
}

TEST_CASE("where time runs out the large sizes are left out and counted") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 2;
  script.collective = [](CollectiveKind, std::int64_t bytes, int, const std::string&, const std::string&) {
    return test::FakeChoice{"RING SIMPLE", 1e-4 + static_cast<double>(bytes) / 1e7};
  };
  test::FakeBackend backend(script, clock);
  int left_out = 0;
  const auto entries = run_curve(backend, clock, 2, {}, {}, clock.now() + 5, &left_out);
  CHECK(entries.size() >= 10);
  CHECK(left_out >= 5);
  CHECK(entries.size() + static_cast<std::size_t>(left_out) == 23);
}

TEST_CASE("a rank that fails ends the measurement on all, with its own error") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 3;
  script.collective = two_protocols;
  test::FakeBackend backend(script, clock);
  std::atomic<int> calls{0};
  backend.script.before = [&](const std::string& call, int device) {
    if (call == "enqueue" && device == 1 && ++calls == 40)
      throw Error(ErrorKind::failure, "ncclAllReduce: unhandled system error");
  };
  CHECK_THROWS_WITH_AS(run_curve(backend, clock, 3, {}, {}), "ncclAllReduce: unhandled system error", Error);
}

TEST_CASE("interference comes out as it was put in") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 2;
  script.item = test::plain_timing;
  script.collective = [](CollectiveKind, std::int64_t, int, const std::string&, const std::string&) {
    return test::FakeChoice{"RING SIMPLE", 150e-6};
  };
  script.compute_slowdown = 1.25;
  script.collective_slowdown = 1.6;
  test::FakeBackend backend(script, clock);
  const Model model = test::wide_resnet(16, 4);
  const device::CommunicatorId id = backend.make_communicator_id();
  InterferenceEntry entry;
  run_ranks(2, clock, [&](RankGroup& group) {
    const auto worker = backend.make_worker(group.rank());
    Session session{*worker, clock, nullptr, &group};
    const auto communicator = worker->join(id, group.rank(), 2);
    device::BuildOptions options;
    options.batch = 64;
    const auto program = worker->build(model, options);
    StepPlan plan(*program);
    double backward = 0;
    for (const device::WorkItem& item : program->backward_items())
      backward += test::plain_timing(model, item, 64).device;
    InterferenceOptions interference;
    interference.backward = backward;
    interference.collective = 150e-6;
    const InterferenceEntry measured =
        measure_interference(session, group, *communicator, worker->allocate(64 << 20), plan, interference);
    if (group.rank() == 0) entry = measured;
  });
  CHECK(entry.ranks == 2);
  CHECK(entry.compute_slowdown.median == approx(1.25).epsilon(0.02));
  CHECK(entry.collective_slowdown.median == approx(1.6).epsilon(0.02));
  CHECK(backend.gates_that_opened_themselves == 0);
}

TEST_CASE("data-parallel steps hide all but the last bucket") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 2;
  script.item = test::plain_timing;
  script.collective = [](CollectiveKind, std::int64_t bytes, int, const std::string&, const std::string&) {
    return test::FakeChoice{"RING SIMPLE", 20e-6 + static_cast<double>(bytes) / 100e9};
  };
  test::FakeBackend backend(script, clock);
  const Model model = test::resnet18();
  const device::CommunicatorId id = backend.make_communicator_id();
  std::vector<double> steps;
  double alone = 0;
  run_ranks(2, clock, [&](RankGroup& group) {
    const auto worker = backend.make_worker(group.rank());
    Session session{*worker, clock, nullptr, &group};
    const auto communicator = worker->join(id, group.rank(), 2);
    device::BuildOptions options;
    options.batch = 64;
    const auto program = worker->build(model, options);
    TrainedSteps measured =
        trained_steps(session, group, *program, communicator.get(), model, StrategyKind::ddp, 20);
    CHECK(measured.buckets == std::vector<std::int64_t>{2052000, 28852224, 15853824});
    if (group.rank() != 0) return;
    steps = std::move(measured.seconds);
    for (const auto items : {program->forward_items(), program->backward_items()})
      for (const device::WorkItem& item : items) alone += test::plain_timing(model, item, 64).device;
    alone += script.prepare.device + script.zero.device + script.update.device;
  });
  REQUIRE(steps.size() == 20);
  const double last = 20e-6 + 15853824 / 100e9;
  for (const double step : steps) CHECK(step == approx(alone + last).epsilon(0.01));
}

#include "calibrate/in_context.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "calibrate/launch_costs.hpp"
#include "calibrate/whole_step.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;
using foretrain::test::approx;

namespace {

// A model on a fake device, and what its script says.
struct Bench {
  explicit Bench(const test::FakeScript& given, Model shape, std::int64_t batch)
      : script(given),
        model(std::move(shape)),
        backend(prepared(given), clock),
        worker(backend.make_worker(0)) {
    device::BuildOptions options;
    options.batch = batch;
    program = worker->build(model, options);
    plan.emplace(*program);
    for (const Slot& slot : plan->slots()) expected.push_back(timing(slot, batch));
    for (const test::FakeTiming& part : expected) {
      device_step += part.device;
      host_step += part.host;
    }
  }

  static test::FakeScript prepared(test::FakeScript script) {
    if (!script.item) script.item = test::plain_timing;
    return script;
  }

  test::FakeTiming timing(const Slot& slot, std::int64_t batch) const {
    switch (slot.kind) {
      case Slot::Kind::prepare_weights:
        return script.prepare;
      case Slot::Kind::zero_gradients:
        return script.zero;
      case Slot::Kind::layer:
        return backend.script.item(model, slot.item, batch);
      case Slot::Kind::update:
        return script.update;
    }
    return {};
  }

  InContextTimes in_context() {
    InContextOptions options;
    options.event_gap = script.event_device;
    options.expected_step = device_step;
    options.expected_host = host_step;
    return measure_in_context(session, *plan, options);
  }

  test::FakeScript script;
  Model model;
  test::FakeClock clock;
  test::FakeBackend backend;
  std::unique_ptr<device::Worker> worker;
  std::unique_ptr<device::Program> program;
  std::optional<StepPlan> plan;
  std::vector<test::FakeTiming> expected;
  double device_step = 0, host_step = 0;
  Session session{*worker, clock};
};

void check_parts(const Bench& bench, const InContextTimes& times, double tolerance) {
  REQUIRE(times.parts.size() == bench.expected.size());
  for (std::size_t part = 0; part < times.parts.size(); ++part) {
    CAPTURE(part);
    CHECK(times.parts[part].median == approx(bench.expected[part].device).epsilon(tolerance));
  }
  CHECK(times.sum == approx(bench.device_step).epsilon(tolerance / 2));
}

}  // namespace

TEST_CASE("parts of a step that the device bounds come out as they were put in") {
  Bench bench({}, test::wide_resnet(16, 4), 128);
  REQUIRE(bench.device_step > 1.5 * bench.host_step);
  const InContextTimes times = bench.in_context();
  CHECK_FALSE(times.gated);
  CHECK(times.drained == 0);
  check_parts(bench, times, 1e-6);
  CHECK(times.event_gap_in_context == approx(bench.script.event_device).epsilon(1e-6));
}

TEST_CASE("parts of a step that the host bounds are timed without waiting for it") {
  test::FakeScript script;
  script.item = [](const Model&, const device::WorkItem& item, std::int64_t) {
    return test::FakeTiming{(5 + item.layer % 4) * 1e-6, 11e-6, 1};
  };
  Bench bench(script, test::wide_resnet(16, 4), 1);
  REQUIRE(bench.host_step > 1.2 * bench.device_step);
  const InContextTimes times = bench.in_context();
  CHECK(times.gated);
  CHECK(bench.backend.gates_that_opened_themselves == 0);
  check_parts(bench, times, 1e-6);
  CHECK(times.event_gap_in_context == approx(bench.script.event_device).epsilon(1e-6));
}

TEST_CASE("a host-bound step with more launches than the queue takes never blocks behind the gate") {
  test::FakeScript script;
  script.item = [](const Model&, const device::WorkItem& item, std::int64_t) {
    return test::FakeTiming{60e-6, 80e-6, 7 + item.layer % 5};
  };
  Bench bench(script, test::resnet50(), 1);
  REQUIRE(bench.plan->launches() > 2 * script.queue_depth);
  const InContextTimes times = bench.in_context();
  CHECK(times.gated);
  CHECK(bench.backend.gates_that_opened_themselves == 0);
  check_parts(bench, times, 1e-6);
}

TEST_CASE("a part of more launches than the queue takes is held until the queue is full, and no longer") {
  test::FakeScript script;
  script.item = [](const Model&, const device::WorkItem& item, std::int64_t) {
    if (item.layer == 3) return test::FakeTiming{30e-3, 36e-3, 5000};
    return test::FakeTiming{6e-6, 8e-6, 1};
  };
  Bench bench(script, test::wide_resnet(16, 4), 1);
  REQUIRE(bench.host_step > bench.device_step);
  const int long_parts =
      static_cast<int>(std::count_if(bench.plan->slots().begin(), bench.plan->slots().end(),
                                     [](const Slot& slot) { return slot.launches == 5000; }));
  REQUIRE(long_parts > 1);
  double begin = bench.clock.now();
  const GatedStep gated =
      measure_gated_step(bench.session, *bench.plan, bench.script.event_device, 0.5, 0, bench.host_step);
  CHECK(bench.clock.now() - begin < 1.5);
  CHECK(gated.steps.size() > 3);
  begin = bench.clock.now();
  InContextOptions options;
  options.event_gap = bench.script.event_device;
  options.expected_step = bench.device_step;
  options.expected_host = bench.host_step;
  options.seconds = 2;
  const InContextTimes times = measure_in_context(bench.session, *bench.plan, options);
  CHECK(times.gated);
  CHECK(bench.clock.now() - begin < 6);
  CHECK(longest_hold(700, 5e-6) == 1);
  CHECK(longest_hold(701, 5e-6) == approx(6.5e-3));
  CHECK(longest_hold(5000, 0) == 1);
  CHECK(longest_hold(5000, 1e-9) == 2e-3);
}

TEST_CASE("where the host turns out too slow to run ahead, the gate is taken") {
  test::FakeScript script;
  script.item = [](const Model&, const device::WorkItem& item, std::int64_t) {
    return test::FakeTiming{(5 + item.layer % 4) * 1e-6, 11e-6, 1};
  };
  Bench bench(script, test::wide_resnet(16, 4), 1);
  InContextOptions options;
  options.event_gap = bench.script.event_device;
  options.expected_step = bench.device_step;
  options.expected_host = 0;  // a wrong expectation
  const InContextTimes times = measure_in_context(bench.session, *bench.plan, options);
  CHECK(times.gated);
  check_parts(bench, times, 1e-6);
}

TEST_CASE("an event that costs less between these kernels than on the chain is told by the stretches") {
  test::FakeScript script;
  script.event_device = 2.5e-6;
  Bench bench(script, test::wide_resnet(16, 4), 128);
  InContextOptions options;
  options.event_gap = 2.9e-6;  // of the chain
  options.expected_step = bench.device_step;
  options.expected_host = bench.host_step;
  const InContextTimes times = measure_in_context(bench.session, *bench.plan, options);
  CHECK(times.event_gap_in_context == approx(2.5e-6).epsilon(1e-6));
  check_parts(bench, times, 1e-6);

  CHECK(event_cost_between(2.9e-6, false, 2.5e-6) == 2.5e-6);
  CHECK(event_cost_between(2.9e-6, true, 0) == 2.9e-6);
  // Noise of long steps must not pass for a cost.
  CHECK(event_cost_between(2.9e-6, false, -1.75e-6) == approx(1.74e-6));
  CHECK(event_cost_between(2.9e-6, false, 9e-6) == approx(4.06e-6));
}

TEST_CASE("noise is averaged out, and the error of the sum is told") {
  test::FakeScript script;
  script.device_sigma = 0.03;
  script.device_tail_probability = 0.002;
  script.device_tail_factor = 4;
  Bench bench(script, test::wide_resnet(16, 4), 128);
  const InContextTimes times = bench.in_context();
  CHECK(times.sum == approx(bench.device_step).epsilon(0.01));
  CHECK(times.relative_error < 0.01);
  CHECK(times.relative_error > 0);
}

TEST_CASE("a long step takes few repetitions but enough") {
  test::FakeScript script;
  script.item = [](const Model&, const device::WorkItem&, std::int64_t) {
    return test::FakeTiming{2e-3, 5e-6, 1};
  };
  script.device_sigma = 0.2;  // never within the error asked for
  Bench bench(script, test::wide_resnet(16, 4), 1);
  const double start = bench.clock.now();
  const InContextTimes times = bench.in_context();
  CHECK(times.stride == 1);
  for (const Sample& part : times.parts) CHECK(part.repetitions >= 3);
  CHECK(bench.clock.now() - start < 10);
}

TEST_CASE("host times come out as they were put in, event-free and without blocking") {
  for (const std::int64_t batch : {1, 128}) {
    CAPTURE(batch);
    Bench bench({}, test::wide_resnet(16, 4), batch);
    const HostTimes host = measure_host(bench.session, *bench.plan, 1);
    for (std::size_t part = 0; part < host.parts.size(); ++part)
      CHECK(host.parts[part].median == approx(bench.expected[part].host).epsilon(0.001));
    CHECK(host.step.median == approx(bench.host_step).epsilon(0.001));
  }
  // A device far slower than the host and more launches than the queue takes: still no blocking.
  test::FakeScript script;
  script.item = [](const Model&, const device::WorkItem& item, std::int64_t) {
    return test::FakeTiming{300e-6, 40e-6, 7 + item.layer % 5};
  };
  Bench bench(script, test::resnet50(), 1);
  const HostTimes host = measure_host(bench.session, *bench.plan, 1);
  CHECK(host.step.median == approx(bench.host_step).epsilon(0.001));
}

TEST_CASE("the whole step is the slower of device and host") {
  for (const std::int64_t batch : {1, 128}) {
    CAPTURE(batch);
    Bench bench({}, test::wide_resnet(16, 4), batch);
    const WholeStep whole = measure_whole_step(bench.session, *bench.plan, 1);
    CHECK(whole.step.repetitions >= 36);
    CHECK(whole.step.median == approx(std::max(bench.device_step, bench.host_step)).epsilon(0.01));
    CHECK(whole.p05 <= whole.step.median);
    CHECK(whole.p95 >= whole.step.median);
    const GatedStep gated = measure_gated_step(bench.session, *bench.plan, bench.script.event_device, 1);
    CHECK(gated.step.median == approx(bench.device_step).epsilon(1e-6));
  }
}

TEST_CASE("the load before timing lasts until the clock has settled, but not for ever") {
  test::FakeScript script;
  script.cold_speed = 1.25;
  script.warm_seconds = 0.2;
  Bench bench(script, test::wide_resnet(16, 4), 128);
  const SoakReport report = soak(bench.session, *bench.plan, bench.backend, 0, {});
  CHECK(report.settled);
  CHECK(report.seconds > 0.5);
  CHECK(report.seconds < 3);
  CHECK(report.step == approx(bench.device_step).epsilon(0.01));

  script.warm_seconds = 20;
  script.cold_speed = 3;
  Bench restless(script, test::wide_resnet(16, 4), 128);
  const SoakReport unsettled = soak(restless.session, *restless.plan, restless.backend, 0, {});
  CHECK_FALSE(unsettled.settled);
  CHECK(unsettled.seconds < 4);
}

TEST_CASE("every part is timed by itself, whatever the stride") {
  for (const int stride : {1, 4}) {
    for (const std::size_t parts : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{40}}) {
      std::vector<int> singles(parts, 0);
      int stretches = 0;
      for (int step = 0; step < 16; ++step) {
        const std::vector<bool> marked = marked_boundaries(parts, stride, step);
        REQUIRE(marked.size() == parts + 1);
        CHECK(marked.front());
        CHECK(marked.back());
        for (std::size_t part = 0; part < parts; ++part) {
          if (marked[part] && marked[part + 1]) ++singles[part];
          if (!marked[part]) ++stretches;
        }
      }
      for (const int count : singles) CHECK(count >= 4);
      if (parts > 4) CHECK(stretches > 0);
    }
  }
}

TEST_CASE("a measurement ends when the user has had enough") {
  std::atomic<bool> stop{true};
  Bench bench({}, test::wide_resnet(16, 4), 128);
  bench.session.stop = &stop;
  CHECK_THROWS_AS(bench.in_context(), Interrupted);
  CHECK_THROWS_AS(measure_host(bench.session, *bench.plan, 1), Interrupted);
  CHECK_THROWS_AS(measure_whole_step(bench.session, *bench.plan, 1), Interrupted);
}

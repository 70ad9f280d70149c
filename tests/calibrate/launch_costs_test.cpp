#include "calibrate/launch_costs.hpp"

#include <doctest/doctest.h>

#include "tests/support/approx.hpp"
#include "tests/support/fake_backend.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;
using foretrain::test::approx;

TEST_CASE("launch costs come out as they were put in") {
  test::FakeClock clock;
  test::FakeScript script;
  script.collective = {};
  test::FakeBackend backend(script, clock);
  const auto worker = backend.make_worker(0);
  Session session{*worker, clock};
  const LaunchCosts costs = measure_launch_costs(session);
  CHECK(costs.launch.median == approx(script.launch_host).epsilon(0.01));
  CHECK(costs.event_record.median == approx(script.event_host).epsilon(0.01));
  CHECK(costs.gap.median == approx(script.gap).epsilon(0.01));
  CHECK(costs.event_gap.median == approx(script.event_device).epsilon(0.01));
  // The waiting kernel starts wait_device after the event; in its own stream it starts event_device after it.
  CHECK(costs.event_wait.median == approx(script.wait_device - script.event_device).epsilon(0.01));
  CHECK(costs.latency.median >= script.launch_host + script.launch_latency - script.gap);
  CHECK(costs.latency.median <= script.launch_host + script.launch_latency + 4e-6);
  CHECK(costs.queue_depth == script.queue_depth);
  CHECK(backend.gates_that_opened_themselves == 0);
}

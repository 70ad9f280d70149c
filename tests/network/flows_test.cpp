#include "sim/network/flows.hpp"

#include <doctest/doctest.h>

#include <map>

#include "sim/base/random.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// Seconds at which each tag is through.
std::map<std::uint64_t, double> run(FlowEngine& engine) {
  std::map<std::uint64_t, double> ends;
  std::vector<std::uint64_t> through;
  while (engine.advance(through)) {
    for (std::uint64_t tag : through) ends[tag] = engine.now().in_seconds();
    through.clear();
  }
  return ends;
}

}  // namespace

// One link of 1 GB/s, two flows of 1 GB with latencies of 1 us and 4 us: from 4 us on each has half. The
// first is through when 1 GB = 3 us x 1 GB/s + (t - 4 us)/2: t = 2 s - 2 us + ...; the second when all 2 GB
// are: 2 s + 1 us.
TEST_CASE("two flows of one link: each waits its latency, then they share") {
  FlowEngine engine(std::vector<double>{1e9});
  engine.start(engine.add_route(std::vector<int>{0}, Time::microseconds(1)), 1e9, 1);
  engine.start(engine.add_route(std::vector<int>{0}, Time::microseconds(4)), 1e9, 2);
  const auto ends = run(engine);
  CHECK(ends.at(1) == approx(2 - 2e-6).epsilon(1e-9));
  CHECK(ends.at(2) == approx(2 + 1e-6).epsilon(1e-9));
}

// C1 = 10, C2 = 4 bytes/s: a over both with 8 bytes, b on 1 with 16, c on 2 with 2. Rates 2, 8, 2 until c is
// through at 1 s; then a has 6 left at 4, b 8 left at 6: b is through at 1 + 8/6 s, a at 2.5 s.
TEST_CASE("rates change when a flow is through") {
  FlowEngine engine(std::vector<double>{10, 4});
  engine.start(engine.add_route(std::vector<int>{0, 1}, Time()), 8, 'a');
  engine.start(engine.add_route(std::vector<int>{0}, Time()), 16, 'b');
  engine.start(engine.add_route(std::vector<int>{1}, Time()), 2, 'c');
  const auto ends = run(engine);
  CHECK(ends.at('c') == approx(1));
  CHECK(ends.at('b') == approx(1 + 8.0 / 6));
  CHECK(ends.at('a') == approx(2.5));
  CHECK(engine.bytes_by_link() == std::vector<double>{24, 10});
  CHECK(engine.idle());
}

TEST_CASE("a flow without links or bytes takes its latency alone") {
  FlowEngine engine(std::vector<double>{1});
  engine.start(engine.add_route({}, Time::microseconds(5)), 100, 1);
  engine.start(engine.add_route(std::vector<int>{0}, Time::microseconds(7)), 0, 2);
  engine.start(engine.add_route({}, Time()), 100, 3);
  const auto ends = run(engine);
  CHECK(ends.at(1) == approx(5e-6));
  CHECK(ends.at(2) == approx(7e-6));
  CHECK(ends.at(3) == 0);
}

TEST_CASE("beside another clock: a capacity that changes on the way") {
  FlowEngine engine(std::vector<double>{10});
  engine.start(engine.add_route(std::vector<int>{0}, Time()), 100, 1);
  CHECK(engine.next() == Time::seconds(10));
  std::vector<std::uint64_t> through;
  engine.advance_to(Time::seconds(4), through);
  CHECK(through.empty());
  engine.set_capacity(0, 5);
  CHECK(engine.next() == Time::seconds(16));
  engine.advance_to(engine.next(), through);
  CHECK(through.size() == 1);
}

// All sizes x k on the same links: all times x k.
TEST_CASE("k times the bytes take k times as long") {
  std::map<std::uint64_t, double> once;
  for (double k : {1.0, 8.0}) {
    RandomStream random(5);
    FlowEngine engine(std::vector<double>{3e9, 4e9, 5e9, 7e9});
    for (std::uint64_t f = 0; f < 40; ++f) {
      const int first = static_cast<int>(random.next() % 4);
      const std::vector<int> route = {first, (first + 1 + static_cast<int>(random.next() % 3)) % 4};
      engine.start(engine.add_route(route, Time()), k * 1e9 * (1 + random.uniform()), f);
    }
    const auto ends = run(engine);
    if (k == 1) once = ends;
    for (const auto& [tag, end] : ends) CHECK(end == approx(k * once.at(tag)).epsilon(1e-9));
  }
}

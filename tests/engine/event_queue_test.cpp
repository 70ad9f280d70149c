#include "sim/engine/event_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>

#include "sim/base/random.hpp"

using namespace foretrain;

TEST_CASE("events come by time, then priority, then order of scheduling") {
  EventQueue<int> queue;
  queue.schedule(Time(20), 0, 1);
  queue.schedule(Time(10), 1, 2);
  queue.schedule(Time(10), 0, 3);
  queue.schedule(Time(10), 0, 4);
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop());
  CHECK(order == std::vector<int>{3, 4, 2, 1});
  CHECK(queue.now() == Time(20));
  CHECK(queue.processed() == 4);
  CHECK_THROWS_AS(queue.schedule(Time(19), 0, 5), Error);
}

TEST_CASE("a random mix of scheduling and taking agrees with a stable sort") {
  RandomStream random(3);
  EventQueue<int> queue;
  std::vector<std::tuple<std::int64_t, int, int>> expected, seen;
  int id = 0;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 20; ++i) {
      const auto time = queue.now() + Time(static_cast<std::int64_t>(random.next() % 50));
      const auto priority = static_cast<std::uint32_t>(random.next() % 3);
      queue.schedule(time, priority, id);
      expected.emplace_back(time.count(), static_cast<int>(priority), id++);
    }
    for (int i = 0; i < 15; ++i) {
      const auto priority = static_cast<int>(queue.first_priority());
      const int taken = queue.pop();
      seen.emplace_back(queue.now().count(), priority, taken);
    }
  }
  while (!queue.empty()) {
    const auto priority = static_cast<int>(queue.first_priority());
    const int taken = queue.pop();
    seen.emplace_back(queue.now().count(), priority, taken);
  }
  CHECK(seen.size() == expected.size());
  // Within one time, an event scheduled later with a lower priority number may still follow one that was
  // already taken; times never go back, and ties of time and priority keep their order.
  for (std::size_t i = 1; i < seen.size(); ++i) {
    CHECK(std::get<0>(seen[i - 1]) <= std::get<0>(seen[i]));
  }
  std::sort(expected.begin(), expected.end());
  std::sort(seen.begin(), seen.end());
  CHECK(seen == expected);
}

TEST_CASE("what comes next is told without taking it, and the clock may pass without an event") {
  EventQueue<int> queue;
  queue.schedule(Time(10), 2, 1);
  queue.schedule(Time(10), 1, 2);
  queue.schedule(Time(20), 0, 3);
  CHECK(queue.first_time() == Time(10));
  CHECK(queue.first_priority() == 1);
  CHECK(queue.begins_before(Time(10), 2));
  CHECK_FALSE(queue.begins_before(Time(10), 1));
  queue.pass(Time(5));
  CHECK(queue.now() == Time(5));
  CHECK(queue.processed() == 1);
  CHECK_THROWS_AS(queue.schedule(Time(4), 0, 4), Error);
  CHECK_THROWS_AS(queue.schedule(Time(30), 256, 4), Error);
  CHECK(queue.pop() == 2);
  CHECK(queue.size() == 2);
}

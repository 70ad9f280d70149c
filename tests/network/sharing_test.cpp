#include "sim/network/sharing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;

namespace {

std::vector<double> incremental(const std::vector<double>& capacities,
                                const std::vector<std::vector<int>>& routes) {
  BandwidthSharing sharing(capacities);
  std::vector<int> ids;
  for (const auto& route : routes) ids.push_back(sharing.add(route));
  sharing.solve();
  std::vector<double> rates;
  for (int id : ids) rates.push_back(sharing.rate(id));
  return rates;
}

void check(const std::vector<double>& capacities, const std::vector<std::vector<int>>& routes,
           const std::vector<double>& expected) {
  const auto plain = max_min_rates(capacities, routes);
  const auto changed = incremental(capacities, routes);
  REQUIRE(plain.size() == expected.size());
  for (std::size_t f = 0; f < expected.size(); ++f) {
    CAPTURE(f);
    CHECK(plain[f] == test::approx(expected[f]));
    CHECK(changed[f] == test::approx(expected[f]));
  }
}

}  // namespace

// One link of C, two flows:            a + b <= C
// Fair: a = b = C/2.
TEST_CASE("two flows share a link alike") {
  check({10}, {{0}, {0}}, {5, 5});
}

// A long flow over links 1 and 2, one more on each:   a + b <= C1,  a + c <= C2
// C1 = 10, C2 = 4: link 2 fills at a = c = 2, then b = 10 - 2 = 8.
TEST_CASE("what a limited flow leaves goes to the other") {
  check({10, 4}, {{0, 1}, {0}, {1}}, {2, 8, 2});
}

// The linear network: flow 0 over three links, flows 1 to 3 on one each.   x0 + xi <= Ci
// C = 6, 8, 10: link 1 fills at x0 = x1 = 3, then x2 = 8 - 3 = 5, x3 = 10 - 3 = 7.
TEST_CASE("linear network of three links") {
  check({6, 8, 10}, {{0, 1, 2}, {0}, {1}, {2}}, {3, 3, 5, 7});
}

// Three levels (Bertsekas and Gallager, figure 6.16, with other numbers):
//   l0: a + b + c <= 3        a = b = c = 1
//   l1: c + d + e <= 9        d = e = (9 - 1)/2 = 4
//   l2: e + f     <= 20       f = 20 - 4 = 16
TEST_CASE("levels depend on those below them") {
  check({3, 9, 20}, {{0}, {0}, {0, 1}, {1}, {1, 2}, {2}}, {1, 1, 1, 4, 4, 16});
}

// Two links of equal share: both fill at once.   a + b <= 4,  b + c <= 4:  all 2.
TEST_CASE("links that fill together") {
  check({4, 4}, {{0}, {0, 1}, {1}}, {2, 2, 2});
}

TEST_CASE("both directions of a link are two links: flows against each other do not meet") {
  check({5, 5}, {{0}, {1}}, {5, 5});
}

TEST_CASE("a departure gives its share to those it held back, and to no others") {
  BandwidthSharing sharing(std::vector<double>{10, 4, 7});
  const int a = sharing.add(std::vector<int>{0, 1});
  const int b = sharing.add(std::vector<int>{0});
  const int c = sharing.add(std::vector<int>{1});
  const int d = sharing.add(std::vector<int>{2});
  CHECK(sharing.solve().flows.size() == 4);
  sharing.remove(c);
  const auto changed = sharing.solve();
  CHECK(std::find(changed.levels.begin(), changed.levels.end(), 2) ==
        changed.levels.end());  // d stands apart
  CHECK(sharing.rate(a) == test::approx(4));
  CHECK(sharing.rate(b) == test::approx(6));
  CHECK(sharing.rate(d) == test::approx(7));
  CHECK(sharing.flows() == 3);
  sharing.set_capacity(1, 1);
  sharing.solve();
  CHECK(sharing.rate(a) == test::approx(1));
  CHECK(sharing.rate(b) == test::approx(9));
}

TEST_CASE("a link without bandwidth is refused") {
  CHECK_THROWS_AS(BandwidthSharing(std::vector<double>{1, 0}), Error);
}

// Random flows come and go over random links; after each change the rates are those found from nothing.
// Routes of two links alone are summed up several at once: `hops` 2 keeps to these.
TEST_CASE("incremental rates are the fair ones after every change") {
  for (const int hops : {2, 5}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      RandomStream random(seed, {3});
      const int links = 3 + static_cast<int>(random.next() % 30);
      std::vector<double> capacities;
      // Few distinct capacities, so that links fill together often.
      for (int l = 0; l < links; ++l) capacities.push_back(1 + static_cast<double>(random.next() % 4));
      BandwidthSharing sharing(capacities);
      std::vector<int> ids;
      std::vector<std::vector<int>> routes;
      for (int change = 0; change < 150; ++change) {
        if (ids.empty() || random.uniform() < 0.6) {
          std::vector<int> route;
          const int wanted = hops == 2 ? 2 : 1 + static_cast<int>(random.next() % 5);
          while (static_cast<int>(route.size()) < std::min(wanted, links)) {
            const int link = static_cast<int>(random.next() % static_cast<std::uint64_t>(links));
            if (std::find(route.begin(), route.end(), link) == route.end()) route.push_back(link);
          }
          ids.push_back(sharing.add(route));
          routes.push_back(route);
        } else {
          const auto at = static_cast<std::ptrdiff_t>(random.next() % ids.size());
          sharing.remove(ids[static_cast<std::size_t>(at)]);
          ids.erase(ids.begin() + at);
          routes.erase(routes.begin() + at);
        }
        if (random.uniform() < 0.3) continue;  // several changes at once
        sharing.solve();
        const auto expected = max_min_rates(capacities, routes);
        for (std::size_t f = 0; f < ids.size(); ++f) {
          REQUIRE(sharing.rate(ids[f]) == test::approx(expected[f]).epsilon(1e-9));
        }
      }
    }
  }
}

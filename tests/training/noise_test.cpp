#include "sim/training/noise.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;

TEST_CASE("quantiles of the normal distribution") {
  CHECK(std::fabs(normal_quantile(0.5)) < 1e-9);
  CHECK(normal_quantile(0.95) == test::approx(1.6448536269514722).epsilon(1e-9));
  CHECK(normal_quantile(0.001) == test::approx(-3.090232306167813).epsilon(1e-9));
  CHECK(normal_quantile(0.999) == test::approx(3.090232306167813).epsilon(1e-9));
}

TEST_CASE("the slowest of N ranks agrees with repeated draws") {
  RandomStream random(5);
  const int ranks = 64, draws = 4001;
  const double sigma = 0.03;
  std::vector<double> slowest(draws);
  for (double& each : slowest) {
    for (int rank = 0; rank < ranks; ++rank) each = std::max(each, std::exp(sigma * random.normal()));
  }
  std::sort(slowest.begin(), slowest.end());
  for (double quantile : {0.05, 0.5, 0.95}) {
    const double drawn = slowest[static_cast<std::size_t>(quantile * draws)];
    CHECK(slowest_factor(sigma, ranks, quantile) == test::approx(drawn).epsilon(0.003));
  }
  CHECK(slowest_factor(sigma, 1, 0.5) == test::approx(1));
  CHECK(slowest_factor(0, 1000, 0.95) == 1);
}

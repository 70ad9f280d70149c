#include "sim/base/quantile.hpp"

#include <doctest/doctest.h>

#include "tests/support/approx.hpp"

using namespace foretrain;

TEST_CASE("quantiles lie between the values, by their places") {
  const std::vector<double> values{1, 2, 4, 8};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 8);
  CHECK(quantile(values, 1.0 / 3) == test::approx(2));
  CHECK(quantile(values, 0.5) == 3);
  CHECK(quantile(values, 0.9) == test::approx(4 + 0.7 * 4));
  CHECK(quantile(std::vector<double>{5}, 0.95) == 5);
  CHECK(quantile({}, 0.5) == 0);
}

TEST_CASE("the median of unsorted values") {
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({9, 1, 5, 6}) == 5.5);
}

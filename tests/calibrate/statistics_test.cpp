#include "calibrate/statistics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;
using foretrain::test::approx;

TEST_CASE("the median's bounds are the order statistics of the exact binomial") {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  // n = 20: P(Binomial(20, 1/2) < 6) = 0.0207, P(< 7) = 0.0577: the bounds are the 6th and the 15th value.
  const Sample twenty = summarize(values);
  CHECK(twenty.median == approx(10.5));
  CHECK(twenty.low == 6);
  CHECK(twenty.high == 15);
  CHECK(twenty.spread == approx(9.5));
  CHECK(twenty.repetitions == 20);
  // n = 5 allows no 95 %: the extremes.
  const Sample five = summarize({5, 1, 4, 2, 3});
  CHECK(five.low == 1);
  CHECK(five.high == 5);
  CHECK(summarize({}).repetitions == 0);
}

TEST_CASE("the median's bounds hold the true median in about 95 of 100 cases") {
  RandomStream random(3);
  for (const int count : {9, 40, 600}) {
    int held = 0;
    constexpr int trials = 2000;
    for (int trial = 0; trial < trials; ++trial) {
      std::vector<double> values;
      for (int i = 0; i < count; ++i) values.push_back(std::exp(random.normal()));
      const Sample sample = summarize(values);
      if (sample.low <= 1 && 1 <= sample.high) ++held;
    }
    CHECK(held > 0.94 * trials);
    CHECK(held < 0.995 * trials);
  }
}

TEST_CASE("repetition stops at the error asked for, at the count or at the time") {
  const StopRule rule{.relative_error = 0.01, .least = 10, .most = 50, .seconds = 1, .least_in_time = 5};
  const std::vector<double> equal(10, 1.0), few(9, 1.0);
  CHECK(rule.done(equal, 0));
  CHECK_FALSE(rule.done(few, 0));
  CHECK(rule.done(few, 1));
  CHECK_FALSE(rule.done(std::vector<double>(4, 1.0), 5));
  std::vector<double> noisy;
  for (int i = 0; i < 49; ++i) noisy.push_back(i % 2 ? 1.0 : 2.0);
  CHECK_FALSE(rule.done(noisy, 0.5));
  noisy.push_back(1);
  CHECK(rule.done(noisy, 0.5));
}

TEST_CASE("noise tells the spread of the many from the tail of the few") {
  RandomStream random(5);
  std::vector<double> values;
  for (int i = 0; i < 20000; ++i)
    values.push_back(0.01 * std::exp(0.02 * random.normal()) * (random.uniform() < 0.01 ? 3 : 1));
  std::vector<double> deviations;
  append_log_deviations(values, deviations);
  const NoiseEntry noise = noise_of("device", deviations);
  CHECK(noise.what == "device");
  CHECK(noise.sigma == approx(0.02).epsilon(0.05));
  CHECK(noise.tail_probability == approx(0.01).epsilon(0.2));
  CHECK(noise.tail_factor == approx(3).epsilon(0.05));
}

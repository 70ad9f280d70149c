// Medians, their confidence bounds, and the noise of repetitions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/base/quantile.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

// Median of values in seconds with the 95 % bounds by order statistics (exact binomial; the extremes where
// fewer than six values allow no 95 %) and the interquartile range.
Sample summarize(std::vector<double> values);

// Each value less `correction`, and never below zero: what remains after the instrument's part is taken out.
Sample less(const Sample& sample, double correction);

// When to stop repeating: at a bounded error of the median, or at the limits.
struct StopRule {
  double relative_error = 0.005;
  int least = 10;      // repetitions
  int most = 2000;     // repetitions
  double seconds = 1;  // of wall clock, once `least_in_time` repetitions are there
  int least_in_time = 5;
  bool done(std::span<const double> values, double seconds_spent) const;
};

// Repetitions of `each` seconds that fit into `seconds`, but no fewer than `least` and no more than `most`.
int repetitions_in(double seconds, double each, int least, int most);

template <typename T>
void append(std::vector<T>& into, const std::vector<T>& more) {
  into.insert(into.end(), more.begin(), more.end());
}

// Natural logarithms of values over their median, appended to `deviations`. Not positive values are left out.
void append_log_deviations(std::span<const double> values, std::vector<double>& deviations);

// The noise that the logarithms of repetitions over their median show. A deviation above six robust standard
// deviations (interquartile range / 1.349) is a rare long one: it counts for the tail and not for sigma.
NoiseEntry noise_of(const std::string& what, std::vector<double> log_deviations);

}  // namespace foretrain::calibrate

#pragma once

#include <span>
#include <vector>

namespace foretrain {

// Quantile of ascending values, linear between neighbours (Hyndman and Fan, type 7). 0 for no values.
double quantile(std::span<const double> ascending, double q);
// Of values in any order. 0 for no values.
double median(std::vector<double> values);

// Of a normal distribution: the standard deviation over the median of absolute deviations, and the half width
// that holds 90 % over that median.
inline constexpr double sigma_of_median_deviation = 1.4826;
inline constexpr double half_width_of_median_deviation = 1.645 * sigma_of_median_deviation;

}  // namespace foretrain

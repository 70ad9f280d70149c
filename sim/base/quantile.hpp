#pragma once

#include <span>
#include <vector>

namespace foretrain {

// Quantile of ascending values, linear between neighbours (Hyndman and Fan, type 7). 0 for no values.
double quantile(std::span<const double> ascending, double q);
// Of values in any order. 0 for no values.
double median(std::vector<double> values);

}  // namespace foretrain

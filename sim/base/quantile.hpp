#pragma once

#include <span>

namespace foretrain {

// Quantile of ascending values, linear between neighbours (Hyndman and Fan, type 7). 0 for no values.
double quantile(std::span<const double> ascending, double q);

}  // namespace foretrain

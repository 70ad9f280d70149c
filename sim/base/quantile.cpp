#include "sim/base/quantile.hpp"

#include <algorithm>
#include <cstddef>

namespace foretrain {

double quantile(std::span<const double> ascending, double q) {
  if (ascending.empty()) return 0;
  const double position = q * static_cast<double>(ascending.size() - 1);
  const std::size_t below = static_cast<std::size_t>(position);
  if (below + 1 >= ascending.size()) return ascending.back();
  const double part = position - static_cast<double>(below);
  return ascending[below] + part * (ascending[below + 1] - ascending[below]);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace foretrain

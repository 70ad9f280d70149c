// Least squares with coefficients that cannot be negative, for a handful of columns.
#pragma once

#include <array>
#include <vector>

namespace foretrain {

inline constexpr int most_columns = 4;

struct Observation {
  std::array<double, most_columns> columns{};
  double value = 0;  // above zero
};

struct LinearFit {
  std::array<double, most_columns> coefficients{};
  double relative_residual = 0;  // root mean square of fitted / observed - 1, by degrees of freedom
  int observations = 0;

  double at(const std::array<double, most_columns>& columns) const;
};

// Minimizes the sum of squared relative errors over all coefficients >= 0, exactly: tries each set of active
// columns. Columns that are zero in every observation get coefficient 0.
LinearFit fit_relative(const std::vector<Observation>& observations);

}  // namespace foretrain

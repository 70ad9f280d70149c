#include "sim/network/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foretrain {
namespace {

constexpr auto columns_count = static_cast<std::size_t>(most_columns);
using Vector = std::array<double, columns_count>;
using Matrix = std::array<Vector, columns_count>;

// Gaussian elimination with pivoting over the active columns; false where they depend on each other.
bool solve(Matrix matrix, Vector right, const std::vector<std::size_t>& active, Vector& solution) {
  const std::size_t n = active.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r) {
      if (std::abs(matrix[active[r]][active[i]]) > std::abs(matrix[active[pivot]][active[i]])) pivot = r;
    }
    std::swap(matrix[active[i]], matrix[active[pivot]]);
    std::swap(right[active[i]], right[active[pivot]]);
    const double diagonal = matrix[active[i]][active[i]];
    if (std::abs(diagonal) < 1e-9) return false;
    for (std::size_t r = i + 1; r < n; ++r) {
      const double factor = matrix[active[r]][active[i]] / diagonal;
      for (std::size_t c = i; c < n; ++c)
        matrix[active[r]][active[c]] -= factor * matrix[active[i]][active[c]];
      right[active[r]] -= factor * right[active[i]];
    }
  }
  solution = {};
  for (std::size_t i = n; i-- > 0;) {
    double value = right[active[i]];
    for (std::size_t c = i + 1; c < n; ++c) value -= matrix[active[i]][active[c]] * solution[active[c]];
    solution[active[i]] = value / matrix[active[i]][active[i]];
  }
  return true;
}

}  // namespace

double LinearFit::at(const std::array<double, most_columns>& columns) const {
  double value = 0;
  for (std::size_t c = 0; c < columns_count; ++c) value += coefficients[c] * columns[c];
  return value;
}

LinearFit fit_relative(const std::vector<Observation>& observations) {
  // Columns are scaled to a root mean square of one, so that the pivots can be judged.
  Vector scale{};
  for (const Observation& row : observations) {
    for (std::size_t c = 0; c < columns_count; ++c) scale[c] += std::pow(row.columns[c] / row.value, 2);
  }
  for (double& s : scale) s = std::sqrt(s / std::max<double>(1, static_cast<double>(observations.size())));
  Matrix normal{};
  Vector right{};
  for (const Observation& row : observations) {
    for (std::size_t i = 0; i < columns_count; ++i) {
      if (scale[i] == 0) continue;
      const double x = row.columns[i] / row.value / scale[i];
      right[i] += x;
      for (std::size_t j = 0; j < columns_count; ++j) {
        if (scale[j] > 0) normal[i][j] += x * row.columns[j] / row.value / scale[j];
      }
    }
  }
  LinearFit best;
  best.observations = static_cast<int>(observations.size());
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < (1U << columns_count); ++set) {
    std::vector<std::size_t> active;
    bool usable = true;
    for (std::size_t c = 0; c < columns_count; ++c) {
      if (!(set & (1U << c))) continue;
      active.push_back(c);
      usable = usable && scale[c] > 0;
    }
    Vector solution{};
    if (!usable || active.size() > observations.size() || !solve(normal, right, active, solution)) continue;
    if (std::any_of(solution.begin(), solution.end(), [](double v) { return v < 0; })) continue;
    double squares = 0;
    for (const Observation& row : observations) {
      double fitted = 0;
      for (std::size_t c : active) fitted += solution[c] * row.columns[c] / scale[c];
      squares += std::pow(fitted / row.value - 1, 2);
    }
    // A further column must earn its place.
    if (squares >= least * (1 - 1e-9)) continue;
    least = squares;
    for (std::size_t c = 0; c < columns_count; ++c) {
      best.coefficients[c] = scale[c] > 0 ? solution[c] / scale[c] : 0;
    }
    const double freedom = std::max(1.0, static_cast<double>(observations.size() - active.size()));
    best.relative_residual = std::sqrt(squares / freedom);
  }
  return best;
}

}  // namespace foretrain

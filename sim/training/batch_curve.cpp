#include "sim/training/batch_curve.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace foretrain {
namespace {

// Kernels come in waves of tiles, so that a time between two measured batches is off the line by some per
// cent, more the further apart they are; beyond the range the doubt grows with the distance. (Assumed;
// `validation/` holds the errors.)
constexpr double doubt_between = 0.02;
constexpr double doubt_beyond = 0.10;

}  // namespace

BatchEstimate at_batch(const std::map<std::int64_t, double>& points, std::int64_t batch) {
  BatchEstimate out;
  const auto exact = points.find(batch);
  if (exact != points.end()) {
    out.value = exact->second;
    return out;
  }
  out.origin = Origin::fitted;
  const auto b = static_cast<double>(batch);
  auto upper = points.upper_bound(batch);
  if (points.size() == 1) {
    const auto& [known, value] = *points.begin();
    const double ratio = b / static_cast<double>(known);
    out.value = value * ratio;
    out.uncertainty = std::min(1.0, std::fabs(ratio - 1) / std::max(ratio, 1.0));
    out.extrapolated = true;
    return out;
  }
  out.extrapolated = upper == points.begin() || upper == points.end();
  if (upper == points.begin()) ++upper;
  if (upper == points.end()) --upper;
  const auto lower = std::prev(upper);
  const double from = static_cast<double>(lower->first), to = static_cast<double>(upper->first);
  const double t = (b - from) / (to - from);
  out.value = std::max(0.0, lower->second + t * (upper->second - lower->second));
  if (out.extrapolated) {
    // A line through two batches says little far away: the doubt grows with the ratio of the batches.
    const double edge = t < 0 ? from : to;
    out.uncertainty = std::min(1.0, doubt_beyond * (1 + std::fabs(std::log2(b / edge))));
    if (out.value == 0) out.value = lower->second * std::min(1.0, b / from);
  } else {
    out.uncertainty = doubt_between * std::min(2.0, std::log2(to / from));
  }
  return out;
}

}  // namespace foretrain

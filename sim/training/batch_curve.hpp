// A time as a function of the batch, from measured batches.
#pragma once

#include <cstdint>
#include <map>

#include "sim/training/profile.hpp"

namespace foretrain {

struct BatchEstimate {
  double value = 0;
  double uncertainty = 0;            // relative, half width at 90 %: of the interpolation alone
  Origin origin = Origin::measured;  // measured at that batch; fitted between and beyond
  bool extrapolated = false;
};

// Piecewise linear between the measured batches, through the two nearest beyond them. A single batch scales
// in proportion. Never negative. `points` must not be empty.
BatchEstimate at_batch(const std::map<std::int64_t, double>& points, std::int64_t batch);

}  // namespace foretrain

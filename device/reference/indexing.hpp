// Places in tensors, counted with a sign as shapes are.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace foretrain::device::reference {

using Index = std::int64_t;

inline std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

inline double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace foretrain::device::reference

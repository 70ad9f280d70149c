// Updates of flat parameters, shared among the threads of the calling stream's team.
#pragma once

#include <cstdint>

#include "sim/training/model.hpp"

namespace foretrain::device::cpu {

struct FlatParameters {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float *first = nullptr, *second = nullptr;  // momentum or first moment; second moment; null where none
  std::int64_t count = 0;
};

// In the order of operations of PyTorch's SGD, Adam and AdamW; `step` counts updates, this one included.
// Gradients are multiplied by `scale` first.
void update_weights(const Optimizer& optimizer, double scale, double step, const FlatParameters& what);

// In double precision and in blocks that do not depend on the number of threads.
double sum_of_squares(const float* values, std::int64_t count);

}  // namespace foretrain::device::cpu

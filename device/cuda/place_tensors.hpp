// Gives every tensor of a lowered model its place in the arena, forward and backward.
#pragma once

#include "device/cuda/lowering.hpp"

namespace foretrain::device::cuda {

void place_tensors(Lowered& lowered, std::int64_t batch, int element_bytes);

}  // namespace foretrain::device::cuda

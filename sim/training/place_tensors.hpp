// Gives every tensor of a lowered model its place in the arena, forward and backward.
#pragma once

#include "sim/training/lowering.hpp"

namespace foretrain::lowering {

void place_tensors(Lowered& lowered, const Model& model, std::int64_t batch, int element_bytes);

}  // namespace foretrain::lowering

// What fused and unrolled recurrences share: inside of both time comes before batch, and states lie as a
// layer gives them to another.
#pragma once

#include "device/cpu/operators.hpp"
#include "device/dropout_mask.hpp"

namespace foretrain::device::cpu {

struct RecurrentSizes {
  LayerKind kind;
  const RecurrentStack& stack;
  std::int64_t batch, steps, width;  // of the input {batch, steps, width}
  explicit RecurrentSizes(const OperatorPlan& plan);
  std::int64_t hidden() const { return stack.hidden; }
  int directions() const { return stack.directions(); }
  int states() const { return states_of(kind); }
  // Features of what a layer of the stack reads, and of its result.
  std::int64_t width_of(int layer) const { return layer == 0 ? width : result_width(); }
  std::int64_t result_width() const { return directions() * hidden(); }
  std::int64_t result_floats() const { return steps * batch * result_width(); }
  bool drops_after(int layer) const { return stack.dropout > 0 && layer + 1 < stack.layers; }
};

// {first, second, features} as {second, first, features}.
void swap_leading(float* to, const float* from, std::int64_t first, std::int64_t second,
                  std::int64_t features, bool adds);

// One layer's state {batch, hidden} into or out of {batch, states, layers, hidden}.
void take_state(const RecurrentSizes& sizes, float* to, const float* packed, int layer, int state);
void give_state(const RecurrentSizes& sizes, float* packed, const float* from, int layer, int state,
                bool adds = false);

// Dropout behind a layer of the stack of {steps, batch, features}; elements are numbered as if batch came
// first. `to` may be `from`.
void drop_between(const RecurrentSizes& sizes, const DropoutMask& mask, int layer, float* to,
                  const float* from);

}  // namespace foretrain::device::cpu

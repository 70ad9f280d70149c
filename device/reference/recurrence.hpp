// Stacks of recurrences in double precision, by back-propagation through time.
#pragma once

#include <cstdint>
#include <vector>

#include "device/reference/sequence_layers.hpp"

namespace foretrain::device::reference {

struct RecurrencePlan {
  LayerKind kind = LayerKind::lstm;
  RecurrentStack stack;
  std::int64_t batch = 1, steps = 1, features = 1;  // of the input {batch, steps, features}
  int gates() const { return gates_of(kind); }
  // Features of what a layer of the stack reads.
  std::int64_t width(int layer) const { return layer == 0 ? features : stack.directions() * stack.hidden; }
};

// What one layer and direction leaves: states before each step (h, and of lstm c) {steps + 1, batch, hidden},
// in the order in which they come; gates after their functions {steps, batch, gates x hidden}; of gru W_hn h
// + b_hn {steps, batch, hidden}.
struct DirectionMemory {
  Tensor h, c, gates, reset;
};
struct RecurrenceMemory {
  std::vector<Tensor> inputs;               // of each layer, after dropout
  std::vector<DirectionMemory> directions;  // layer x directions + direction
};

// `parameters`: weight_ih, weight_hh, bias_ih, bias_hh of each layer and direction. `first`: {batch, states,
// layers, hidden}, may be empty. `y`: the last layer's sequence {batch, steps, directions x hidden}, or the
// last states as `first` where the stack gives its state.
void recurrence_forward(const RecurrencePlan& plan, const std::vector<const Tensor*>& parameters,
                        const Tensor& x, const Tensor& first, const DropoutMask& mask, Tensor& y,
                        RecurrenceMemory& memory);

struct RecurrenceGradients {
  std::vector<Tensor> parameters;
  Tensor x, first;
};
RecurrenceGradients recurrence_backward(const RecurrencePlan& plan,
                                        const std::vector<const Tensor*>& parameters, const DropoutMask& mask,
                                        const Tensor& dy, const RecurrenceMemory& memory);

}  // namespace foretrain::device::reference

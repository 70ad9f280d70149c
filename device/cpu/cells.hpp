// One position of a recurrence: what becomes of the products with input and state, and their gradients.
#pragma once

#include <cstdint>

#include "sim/training/model.hpp"

namespace foretrain::device::cpu {

// Of one position; gates in the order of Layer, each `hidden` wide in rows of a sample.
struct CellStep {
  LayerKind kind = LayerKind::lstm;
  std::int64_t batch = 1, hidden = 1;
  const float *from_input = nullptr, *from_state = nullptr;  // products {batch, gates x hidden}
  const float *bias_input = nullptr, *bias_state = nullptr;
  const float *h_before = nullptr, *c_before = nullptr;
  float *gates = nullptr, *reset = nullptr;  // kept: after their functions; of gru W_hn h + b_hn
  float *h = nullptr, *c = nullptr;
  float* out = nullptr;  // h once more, in rows of `out_stride`
  std::int64_t out_stride = 0;
};
// lstm: i f g o; c' = f c + i g; h' = o tanh(c'). gru: r z n with n = tanh(. + r (W_hn h + b_hn)); h' = (1 -
// z) n + z h. rnn: h' = tanh(.).
void cell_forward(const CellStep& step);

// dh: of the state behind the step from the steps after it, becomes the part of the state before it that
// passes no product; dc likewise, the whole.
struct CellGradients {
  const float* dout = nullptr;  // in rows of CellStep::out_stride
  float *dh = nullptr, *dc = nullptr;
  float *d_input = nullptr, *d_state = nullptr;  // of the products; one but for gru
};
void cell_backward(const CellStep& step, const CellGradients& gradients);

}  // namespace foretrain::device::cpu

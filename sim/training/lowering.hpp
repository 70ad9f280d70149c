// From a Model to the operators that run on a GPU (the cuda backend's plan, which the memory estimate
// shares): layers fused where one kernel does both, tensors named, and for each tensor of activations or
// gradients a place in one arena that lives no longer than it is needed.
//
// Fusions, each where the tensor between has no other reader:
//   batch_norm, relu            batch_norm, add, relu           batch_norm, add
//   conv2d with bias, relu      linear with bias, relu
//   add, batch_norm             the sum is made by the batch norm's first pass, if that is its first reader
// The loss of a sequence writes its gradient over the logits.
// flatten, the backward pass of add, and the backward pass of the loss (done with its forward pass) are no
// work.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain::lowering {

// A tensor of activations, channels-last: of a sequence, features are the channels and positions the rows.
// Tokens are whole numbers of 32 bits and lie outside the arena.
struct Tensor {
  std::int64_t channels = 0, height = 1, width = 1;
  bool differentiable = false;  // whether a gradient with respect to it is wanted
  std::int64_t pixels() const { return height * width; }
  std::int64_t elements() const { return channels * height * width; }  // a sample
};

constexpr std::int64_t nowhere = -1;

// dst = a + b, places in the arena.
struct GradientSum {
  std::int64_t a, b, sum;
};

struct Operator {
  LayerKind kind = LayerKind::input;
  int layer = -1;
  std::vector<int> inputs;  // tensors; of batch_norm: x
  int output = -1;
  int residual = -1;           // batch_norm: added before the ReLU
  int sum_of[2] = {-1, -1};    // batch_norm: x is their sum, to be written
  bool relu = false;           // after the operator
  bool forward_fused = false;  // add: made by the batch norm that reads it

  // Places in the arena, in bytes.
  std::int64_t x = nowhere, y = nowhere, residual_at = nowhere, sum_at[2] = {nowhere, nowhere};
  std::vector<std::int64_t> inputs_at;
  // Kept for the backward pass: the mask of a fused ReLU after an addition, the choice of a max_pool; fp32
  // moments of a layer_norm's (mean, 1 / deviation) or rms_norm's (1 / root) rows; of attention the fp32
  // logarithms of the softmax's sums {heads, queries}, or where it is not fused (fuses_attention) the softmax
  // itself {heads, queries, keys}. A sample's after another's. What a recurrence keeps lies elsewhere
  // (recurrence_reserve_bytes).
  std::int64_t memo = nowhere;
  // Backward: gradients of the output (one or two), their sum after the ReLU where it is written, a gradient
  // of the input that is there already and to be added, and where the gradient of the input goes.
  std::vector<GradientSum> sums;  // first, where more gradients meet than the operator reads
  std::int64_t dy = nowhere, dy2 = nowhere, g = nowhere, existing = nowhere, dx = nowhere;
  // Of attention, multiply, concat and recurrences: of each input, nowhere where it is not wanted; dx is the
  // first. None of them is dy, or the gradient of another input.
  std::vector<std::int64_t> inputs_dx;
};

struct Lowered {
  std::vector<Tensor> tensors;      // tensor 0 is the model's input, outside the arena
  std::vector<Operator> operators;  // in forward order; backward runs them in reverse
  std::int64_t arena_bytes = 0;
};

// Whether attention runs as one kernel that keeps no softmax: in half precision, heads of up to 128 features.
bool fuses_attention(const Layer& layer, int element_bytes);
// What a recurrence's forward pass leaves for its backward pass, besides input and output: gates and states
// of all layers, directions and positions. A library asks for about as much.
std::int64_t recurrence_reserve_bytes(const Layer& layer, std::int64_t sequence, std::int64_t batch,
                                      int element_bytes);

// element_bytes: of activations and their gradients. A `measured` layer is taken as an operator that keeps
// its input. Error (unavailable) for a list of parameters.
Lowered lower(const Model& model, std::int64_t batch, int element_bytes);

}  // namespace foretrain::lowering

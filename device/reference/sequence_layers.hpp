// Layers of sequences in double precision: rows of features, one after the other, batch x sequence of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/dropout_mask.hpp"
#include "device/reference/layers.hpp"

namespace foretrain::device::reference {

// Batch x sequence rows; `positions` of them a sample.
struct RowShape {
  std::int64_t batch = 1, positions = 1, features = 1;
  std::int64_t rows() const { return batch * positions; }
};
RowShape row_shape(std::int64_t batch, const Shape& shape);

// y = scale weight[token] + positions[position] + segments[0] + sine table; tables that are empty are left
// out. `tokens`: those of one stream, a row each.
void embedding_forward(const RowShape& shape, const EmbeddingTable& table,
                       std::span<const std::int32_t> tokens, const Tensor& weight, const Tensor& positions,
                       const Tensor& segments, Tensor& y);
// The gradients of the tables are set; where a table is empty, so is its gradient.
void embedding_backward_weights(const RowShape& shape, const EmbeddingTable& table,
                                std::span<const std::int32_t> tokens, const Tensor& dy, Tensor& dweight,
                                Tensor& dpositions, Tensor& dsegments);

// Of each row; the mean is 0 for rms_norm.
struct RowStatistics {
  Tensor mean, inverse_deviation;
};
// y = gamma (x - mean) / sqrt(variance + epsilon) + beta (Ba et al. 2016), or without the mean and beta
// (Zhang and Sennrich 2019).
void row_norm_forward(const RowShape& shape, bool subtracts_mean, double epsilon, const Tensor& x,
                      const Tensor& gamma, const Tensor& beta, Tensor& y, RowStatistics& statistics);
void row_norm_backward_weights(const RowShape& shape, const Tensor& x, const Tensor& dy,
                               const RowStatistics& statistics, Tensor& dgamma, Tensor& dbeta);
// dx += the gradient.
void row_norm_backward_data(const RowShape& shape, bool subtracts_mean, const Tensor& x, const Tensor& dy,
                            const Tensor& gamma, const RowStatistics& statistics, Tensor& dx);

// Value and derivative at one x.
struct Activation {
  double value, slope;
};
Activation gelu(double x, bool approximate);  // Hendrycks and Gimpel 2016
Activation silu(double x);

// Where q, k or v lie: in rows of `stride` features, heads from `offset` on.
struct HeadRows {
  std::int64_t positions = 0, stride = 0, offset = 0;
};
struct AttentionPlan {
  std::int64_t batch = 1;
  AttentionHeads heads;
  HeadRows rows[3];      // q, k, v
  int input_of[3] = {};  // which of the layer's inputs
};
AttentionPlan attention_plan(const Model& model, const Layer& layer, std::int64_t batch);

// Kept for the backward pass: q and k after they were turned, and the softmax {batch, heads, queries, keys}.
struct AttentionMemory {
  Tensor q, k, softmax;
};
void attention_forward(const AttentionPlan& plan, const std::vector<const Tensor*>& inputs,
                       const DropoutMask& mask, Tensor& y, AttentionMemory& memory);
// Adds to the gradients of the inputs.
void attention_backward(const AttentionPlan& plan, const std::vector<const Tensor*>& inputs,
                        const DropoutMask& mask, const Tensor& dy, const AttentionMemory& memory,
                        const std::vector<Tensor*>& gradients);

}  // namespace foretrain::device::reference

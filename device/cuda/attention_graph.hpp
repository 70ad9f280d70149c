// Attention as one kernel of cuDNN, forward and backward: products, scale, causal mask and softmax described
// as one graph that its engine of fused attention takes. bf16, as many heads of keys as of queries, no
// dropout.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "device/cuda/cudnn.hpp"

namespace foretrain::device::cuda {

// Strides in elements; features of a head are neighbours.
struct HeadStrides {
  std::int64_t sample, head, position;
};

struct AttentionProblem {
  std::int64_t batch, heads, queries, keys, features;
  bool causal;
  Scalar type;
  HeadStrides q, k, v, out, dout, dq, dk, dv;
};

struct AttentionPlaces {
  void *q, *k, *v, *out;
  void* logarithms;  // fp32 {batch, heads, queries}: written forward, read backward
  void *dout, *dq, *dk, *dv;
};

// Found once for all layers of one shape; null where cuDNN has no engine for it.
struct AttentionPlans {
  Plan forward, backward;
};
using AttentionPlanCache = std::map<std::string, std::shared_ptr<const AttentionPlans>>;

class FusedAttention {
 public:
  // Null where cuDNN has no engine for it.
  static std::unique_ptr<FusedAttention> make(cudnnHandle_t handle, const AttentionProblem& problem,
                                              AttentionPlanCache& known);

  std::int64_t workspace() const;
  // Before the first run, once places and workspace are known.
  void bind(const AttentionPlaces& places, void* workspace);
  void forward(cudnnHandle_t handle) const;
  void backward(cudnnHandle_t handle, cudaStream_t stream) const;

 private:
  FusedAttention(const AttentionProblem& problem, std::shared_ptr<const AttentionPlans> plans);
  std::int64_t sums_bytes() const;
  std::int64_t accumulated_bytes() const;

  AttentionProblem problem_;
  float scale_ = 1, one_ = 1, hidden_ = 0;  // read through the variant pack
  std::shared_ptr<const AttentionPlans> plans_;
  std::optional<Descriptor> forward_pack_, backward_pack_;
  std::byte* accumulated_ = nullptr;
};

}  // namespace foretrain::device::cuda

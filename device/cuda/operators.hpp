// Operators of a built program: each runs the passes of one layer (and of those fused into it) on the compute
// stream, with everything prepared, so that a run is a few launches and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "device/cuda/context.hpp"
#include "device/cuda/lowering.hpp"
#include "device/cuda/parameters.hpp"
#include "device/cuda/sequence.hpp"

namespace foretrain::device::cuda {

// What all operators of one program know.
struct Build {
  Context& context;
  const Model& model;
  const BuildOptions& options;
  const Lowered& lowered;
  const Parameters& parameters;
  Scalar type;                  // of activations
  bool tf32;                    // fp32 products on tensor cores
  std::byte* arena;             // places of `lowered`
  std::byte* input;             // tensor 0, channels-last
  std::int64_t input_channels;  // as stored: padded where the first layers are convolutions
  const std::int32_t* labels;
  float* loss;
  Reduction reduction;
  std::byte* scratch;  // see scratch_bytes
  Workspace& search;   // during the search for plans only
  // Of operators, by layer and purpose: what lasts from a forward pass to its backward pass and no longer,
  // and copies of the weights.
  std::map<std::pair<int, std::string>, SharedMemory>& in_step;

  std::byte* at(std::int64_t place) const { return place == nowhere ? input : arena + place; }
  std::byte* at_or_null(std::int64_t place) const { return place == nowhere ? nullptr : arena + place; }
  const Tensor& tensor(int index) const { return lowered.tensors[static_cast<std::size_t>(index)]; }
  const Layer& layer(const Operator& op) const { return model.layers[static_cast<std::size_t>(op.layer)]; }
};

class Runnable {
 public:
  virtual ~Runnable() = default;
  virtual bool has(Pass pass) const = 0;
  virtual void run(Pass pass) = 0;
  // Library workspace that run() needs, and where it lies; bind comes before the first run.
  virtual std::int64_t workspace() const { return 0; }
  virtual void bind(void*) {}
  // After the weights changed by other means than the fused update: copies of them in another layout.
  virtual int refresh_launches() const { return 0; }
  virtual void refresh() {}
  // The same after a program that shares the weights has updated them, for copies that it does not share.
  virtual void refresh_own() { refresh(); }
  // Whether backward_weights adds to the gradients or sets them.
  virtual void accumulate(bool) {}
  // Running statistics of a batch norm (mean, then variance), in one device array.
  virtual std::span<float> running_statistics() { return {}; }
  virtual void share_statistics(std::span<float>) {}  // of the same layer in another program
  // Device memory from which a library draws its masks.
  virtual std::span<std::byte> random_state() { return {}; }
};

// Device memory beside the arena that an operator keeps: channel arrays, padded weights.
std::unique_ptr<Runnable> make_convolution(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_linear(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_batch_norm(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_pool(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_relu(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_add(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_loss(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_embedding(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_row_norm(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_activation(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_dropout(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_multiply(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_concat(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_attention(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_recurrence(const Build& build, const Operator& op);
std::unique_ptr<Runnable> make_unrolled(const Build& build, const Operator& op);

// Where the gradient of an operator's parameter goes. It is added where the parameter is tied and a layer
// whose backward pass comes first has set it. Looks through all operators: to be asked while building.
GradientSink sink_of(const Build& build, const Operator& op, int parameter);
// The same where gradients accumulate.
inline GradientSink accumulating(GradientSink sink, bool accumulates) {
  sink.adds |= accumulates;
  return sink;
}
bool is_shared_gradient(const Build& build, const Operator& op, int parameter);

// Whether a layer drops by our own kernels: a dropout, attention or an unrolled recurrence.
bool draws_masks(const Layer& layer);

// A layer's dropout: anew each forward pass, which the backward pass after it repeats. The draws are counted
// on the device, by the first layer of the model that drops, for all.
class DropoutDraws {
 public:
  DropoutDraws(const Build& build, const Operator& op);
  void begin_forward(cudaStream_t stream) const {
    if (advances_) next_draw(counter_, stream);
  }
  Dropout of(double probability, int part = 0) const {
    return {static_cast<float>(probability), seed_ + (static_cast<std::uint64_t>(part) << 56), counter_};
  }

 private:
  std::uint64_t seed_;
  std::uint64_t* counter_;
  bool advances_ = false;
};

// Scratch that the dense operators share: a weight gradient before it is converted or stripped of padding.
std::int64_t scratch_bytes(const Model& model, std::int64_t input_channels);

// The sums that come before an operator's backward pass.
void run_sums(const Build& build, const Operator& op);

}  // namespace foretrain::device::cuda

// Operators of a built program: each runs the passes of one layer, and of a relu fused into it, on the
// calling stream's team, with everything prepared.
#pragma once

#include <memory>
#include <vector>

#include "device/cpu/loops.hpp"
#include "device/cpu/onednn.hpp"
#include "device/cpu/parameters.hpp"

namespace foretrain::device::cpu {

// A layer's input: its gradient is null where nobody wants it, and added to what is there where `adds`.
struct InputPlace {
  float* data = nullptr;
  float* gradient = nullptr;
  bool adds = false;
};

// Where an operator finds what it reads and writes.
struct Places {
  std::vector<InputPlace> inputs;
  float *output = nullptr, *gradient = nullptr;
  std::byte* scratchpad = nullptr;  // as large as the largest scratchpad_bytes()
  float* scratch = nullptr;         // as large as the largest scratch_floats()
  Parameters* parameters = nullptr;
  std::vector<bool>
      shared_gradients;  // by parameter of the layer: set before by another layer, to be added to
  const std::int32_t *tokens = nullptr, *labels = nullptr;  // batch x streams x sequence; a class a target
  const double* draw = nullptr;                             // names dropout's masks
  double* loss = nullptr;
  std::shared_ptr<MemoryCount> count;
};

// Of the layer it runs, as the program has planned it.
struct OperatorPlan {
  const Model& model;
  const Layer& layer;
  int index = 0;
  std::int64_t batch = 1;
  bool relu = false;           // fused behind it
  std::vector<Layout> inputs;  // as they lie in memory
  std::uint64_t seed = 1;
  bool bf16 = false;  // convolutions and linear layers read numbers of bf16; sums and all else are of fp32
};

class Operator {
 public:
  virtual ~Operator() = default;
  virtual const Layout& output() const = 0;
  virtual std::int64_t scratchpad_bytes() const { return 0; }
  virtual std::int64_t scratch_floats() const { return 0; }
  virtual void bind(const Places& places) = 0;
  // Primitives and loops of ours that run(pass) makes, reorders among them; 0: it has no such pass.
  virtual int launches(Pass pass) const = 0;
  // `adds`: gradients of parameters are added to those that are there.
  virtual void run(Pass pass, bool adds) = 0;
  // Copies of the weights in the library's layouts, once they have changed.
  virtual void refresh() {}
  virtual int refresh_launches() const { return 0; }
};

// A gradient of an input that is computed as a whole and then, where need be, added.
struct GradientTarget {
  float *computed = nullptr, *wanted = nullptr;
  bool adds = false;
  std::int64_t count = 0;

  GradientTarget() = default;
  GradientTarget(const InputPlace& input, float* scratch, std::int64_t floats)
      : computed(input.adds ? scratch : input.gradient),
        wanted(input.gradient),
        adds(input.adds),
        count(floats) {}
  void finish() const {
    if (adds) add_to(wanted, computed, count);
  }
  int launches() const { return adds ? 2 : 1; }
};

Dims dims_of(std::int64_t batch, const Shape& shape);
// Where a kernel puts what it needs while it runs.
dnnl::memory scratchpad_at(const Layout& layout, const Places& places);
// As rows of the last dimension.
std::int64_t features_of(const Shape& shape);
std::int64_t rows_of(std::int64_t batch, const Shape& shape);

std::unique_ptr<Operator> make_convolution(const OperatorPlan& plan);
std::unique_ptr<Operator> make_linear(const OperatorPlan& plan);
std::unique_ptr<Operator> make_batch_norm(const OperatorPlan& plan);
std::unique_ptr<Operator> make_pool(const OperatorPlan& plan);
std::unique_ptr<Operator> make_relu(const OperatorPlan& plan);
std::unique_ptr<Operator> make_add(const OperatorPlan& plan);
std::unique_ptr<Operator> make_flatten(const OperatorPlan& plan);
std::unique_ptr<Operator> make_loss(const OperatorPlan& plan);
std::unique_ptr<Operator> make_embedding(const OperatorPlan& plan);
std::unique_ptr<Operator> make_layer_norm(const OperatorPlan& plan);
std::unique_ptr<Operator> make_rms_norm(const OperatorPlan& plan);
std::unique_ptr<Operator> make_activation(const OperatorPlan& plan);  // gelu, silu
std::unique_ptr<Operator> make_dropout(const OperatorPlan& plan);
std::unique_ptr<Operator> make_multiply(const OperatorPlan& plan);
std::unique_ptr<Operator> make_concat(const OperatorPlan& plan);
std::unique_ptr<Operator> make_attention(const OperatorPlan& plan);
std::unique_ptr<Operator> make_recurrence(const OperatorPlan& plan);  // fused
std::unique_ptr<Operator> make_unrolled(const OperatorPlan& plan);
// Throws Error (unavailable) for what this backend does not run.
std::unique_ptr<Operator> make_operator(const OperatorPlan& plan);

}  // namespace foretrain::device::cpu

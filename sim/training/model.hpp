// A model as a graph of layers with inferred shapes. Built by sim/training/model_builder from a description,
// read from YAML by sim/input/model_reader; used by the simulator, the memory estimate, the calibration and
// the executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace foretrain {

// Shape of a tensor per sample: {channels, height, width} for images, {features} after flatten.
using Shape = std::vector<std::int64_t>;
std::int64_t element_count(const Shape& shape);

enum class LayerKind {
  input,
  conv2d,
  batch_norm,
  relu,
  max_pool,
  avg_pool,
  global_pool,
  linear,
  add,
  flatten,
  softmax_cross_entropy,
  measured,  // times, output shape and parameters are given in the model file
};
const char* name_of(LayerKind kind);
std::optional<LayerKind> layer_kind_named(std::string_view name);  // the reverse; none where unknown

// Attributes of conv2d and of the pools; linear uses none of them.
struct Window {
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int pad_h = 0, pad_w = 0;
  int dilation_h = 1, dilation_w = 1;
  int groups = 1;
  bool count_padding = true;  // avg_pool: whether padding counts in the mean
  bool operator==(const Window&) const = default;
};

// Times of a `measured` layer, per sample and fixed per call.
struct MeasuredTimes {
  Time forward, forward_per_sample;
  Time backward, backward_per_sample;
  int launches_forward = 1, launches_backward = 1;
  bool operator==(const MeasuredTimes&) const = default;
};

struct Layer {
  std::string name;  // path of names, unique: "layer1.0.conv1"
  LayerKind kind = LayerKind::input;
  std::vector<int> inputs;      // indices of layers whose outputs are read; layer 0 is the input
  Shape output;                 // per sample
  Window window;                // conv2d, pools
  bool bias = false;            // conv2d, linear
  double epsilon = 1e-5;        // batch_norm
  double momentum = 0.1;        // batch_norm: running = (1 - momentum) running + momentum batch
  std::vector<int> parameters;  // indices into Model::parameters (weight, then bias)
  std::vector<Shape> buffers;   // batch_norm's running mean and variance: kept, not trained
  std::optional<MeasuredTimes> measured;
  Flops forward_flops;  // per sample; a multiply and an add are two; conv2d and linear, zero for all others
};

struct Parameter {
  std::string name;  // "layer1.0.conv1.weight"
  Shape shape;  // conv2d: {out, in / groups, kernel_h, kernel_w}; linear: {out, in}; batch_norm: {channels}
  std::int64_t elements = 0;
  int layer = -1;  // the layer that owns it; -1 in a mere list of parameters
};

enum class OptimizerKind { sgd, adam, adamw };
const char* name_of(OptimizerKind kind);

struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  double learning_rate = 0.1;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool operator==(const Optimizer&) const = default;
};

// "sgd", "sgd-momentum", "adam", "adamw": what an optimizer's entry is called in a profile.
std::string optimizer_entry_name(const Optimizer& optimizer);

struct Model {
  std::string name;
  std::string title;            // a line for people
  std::string unit = "images";  // what a sample is called in throughput
  Shape input;                  // per sample
  std::int64_t classes = 0;
  std::vector<Layer> layers;  // topological order; layers[0] is the input; empty in a list of parameters
  std::vector<Parameter> parameters;  // registration order (the order in which the file names the layers)
  Optimizer optimizer;

  bool is_graph() const { return layers.size() > 1; }
  std::int64_t parameter_count() const;
  Flops forward_flops() const;  // per sample
};

// "64x56x56"; "scalar" for no dimensions.
std::string text_of(const Shape& shape);

// Per layer, the layers that read its output, in their order; a layer that reads it twice is listed twice.
std::vector<std::vector<int>> consumers_of(const Model& model);

// What a layer's kernels depend on besides batch and precision, as one line that is equal for equal work:
// "conv2d in=64x56x56 out=64x56x56 k=3x3 s=1x1 p=1x1 d=1x1 g=1". Profiles are keyed by it (operator, shape,
// layout).
std::string operator_key(const Model& model, const Layer& layer);

}  // namespace foretrain

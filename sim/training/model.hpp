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

// Shape of a tensor per sample: {channels, height, width} for images, {features} after flatten, {sequence,
// features} for sequences, {sequence} or {streams, sequence} for tokens.
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
  embedding,
  layer_norm,
  rms_norm,
  gelu,
  silu,
  dropout,
  attention,
  multiply,
  concat,
  rnn,
  lstm,
  gru,
  measured,  // times, output shape and parameters are given in the model file
};
const char* name_of(LayerKind kind);
std::optional<LayerKind> layer_kind_named(std::string_view name);  // the reverse; none where unknown

bool is_recurrence(LayerKind kind);  // rnn, lstm, gru

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

// A row of a table for each token, and of further tables that are added to it. Parameters: weight
// {vocabulary, features}, then positions {rows, features} and segments {count, features} where there are any.
struct EmbeddingTable {
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  // rows of a learned table of positions; 0: none
  bool sinusoidal = false;     // sin and cos of the position (Vaswani et al. 2017), no parameters
  std::int64_t segments = 0;   // rows of a table of segments, of which all tokens belong to the first
  bool scaled = false;         // the token's row times sqrt(features)
  int stream = 0;              // of the input {streams, sequence}
  bool operator==(const EmbeddingTable&) const = default;
};

// softmax(q k^T / sqrt(head_dim)) v for each head; no parameters, the projections are layers of their own.
// Inputs: one that packs q, k and v along the features; or q and one that packs k and v (cross attention);
// or q, k, v. Packed as heads x head_dim of q, then kv_heads x head_dim of k, then of v. Each kv head serves
// heads / kv_heads neighbouring heads.
struct AttentionHeads {
  int heads = 1, kv_heads = 1;
  int head_dim = 0;
  bool causal = false;
  double rotary_base = 0;  // above 0: q and k are turned by their position first (Su et al. 2021), halves
                           // paired as in Llama's public code: (i, i + head_dim / 2)
  double dropout = 0;      // of the softmax
  bool operator==(const AttentionHeads&) const = default;
};

// rnn (tanh), lstm, gru as cuDNN and PyTorch define them, gates in the order i f g o and r z n. Parameters,
// for each layer and then direction: weight_ih {gates x hidden, in}, weight_hh {gates x hidden, hidden},
// bias_ih, bias_hh. Inputs: the sequence; and where there is a second one, the first state of each layer.
struct RecurrentStack {
  std::int64_t hidden = 0;
  int layers = 1;
  bool bidirectional = false;  // output {sequence, 2 hidden}: forward, then backward direction
  bool unrolled = false;       // a loop of small kernels over time in place of one fused call
  // The output is the last state of the forward direction of each layer in place of the sequence: {1 or, of
  // lstm, 2 (h, c), layers, hidden}. What a decoder begins with.
  bool gives_state = false;
  double dropout = 0;  // between layers
  int directions() const { return bidirectional ? 2 : 1; }
  bool operator==(const RecurrentStack&) const = default;
};
int gates_of(LayerKind recurrence);   // 1, 4, 3
int states_of(LayerKind recurrence);  // 1, of lstm 2

struct Layer {
  std::string name;  // path of names, unique: "layer1.0.conv1"
  LayerKind kind = LayerKind::input;
  std::vector<int> inputs;      // indices of layers whose outputs are read; layer 0 is the input
  Shape output;                 // per sample
  Window window;                // conv2d, pools
  EmbeddingTable embedding;     // embedding
  AttentionHeads attention;     // attention
  RecurrentStack recurrence;    // rnn, lstm, gru
  bool bias = false;            // conv2d, linear, layer_norm
  bool approximate = false;     // gelu: by tanh
  double probability = 0;       // dropout: of an element to be zero; the others grow by 1 / (1 - probability)
  double epsilon = 1e-5;        // batch_norm, layer_norm, rms_norm
  double momentum = 0.1;        // batch_norm: running = (1 - momentum) running + momentum batch
  int tied = -1;                // linear, embedding: the layer that owns its weight; -1: itself
  std::vector<int> parameters;  // indices into Model::parameters (weight, then bias), a tied one's included
  std::vector<Shape> buffers;   // batch_norm's running mean and variance: kept, not trained
  std::optional<MeasuredTimes> measured;
  Flops forward_flops;  // per sample; a multiply and an add are two; of matrix products, zero for all others
};

struct Parameter {
  std::string name;  // "layer1.0.conv1.weight"
  Shape shape;       // conv2d: {out, in / groups, kernel_h, kernel_w}; linear: {out, in}; norms: {channels}
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
  double clip_norm = 0;  // above 0: gradients are scaled down to this norm over all parameters where above it
  bool operator==(const Optimizer&) const = default;
};

// "sgd", "sgd-momentum", "adam", "adamw": what an optimizer's entry is called in a profile.
std::string optimizer_entry_name(const Optimizer& optimizer);

struct Model {
  std::string name;
  std::string title;            // a line for people
  std::string unit = "images";  // what a sample is called in throughput
  Shape input;                  // per sample
  std::int64_t classes = 0;     // of the loss: of an image, or of each token
  std::int64_t tokens = 0;      // above 0: the input is of integers below this; 0: real numbers
  std::int64_t sequence = 0;    // length of a sequence of tokens, 0 where there is none
  std::vector<Layer> layers;    // topological order; layers[0] is the input; empty in a list of parameters
  std::vector<Parameter> parameters;  // registration order (the order in which the file names the layers)
  Optimizer optimizer;

  bool is_graph() const { return layers.size() > 1; }
  std::int64_t parameter_count() const;
  Flops forward_flops() const;            // per sample
  std::int64_t targets() const;           // labels a sample: 1, or one a token
  std::int64_t units_per_sample() const;  // `unit` counts them: 1, or the tokens of all streams
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

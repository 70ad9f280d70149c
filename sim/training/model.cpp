#include "sim/training/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

constexpr std::array<const char*, 24> kind_names = {"input",
                                                    "conv2d",
                                                    "batch_norm",
                                                    "relu",
                                                    "max_pool",
                                                    "avg_pool",
                                                    "global_pool",
                                                    "linear",
                                                    "add",
                                                    "flatten",
                                                    "softmax_cross_entropy",
                                                    "embedding",
                                                    "layer_norm",
                                                    "rms_norm",
                                                    "gelu",
                                                    "silu",
                                                    "dropout",
                                                    "attention",
                                                    "multiply",
                                                    "concat",
                                                    "rnn",
                                                    "lstm",
                                                    "gru",
                                                    "measured"};

std::string pair_text(int h, int w) {
  return std::to_string(h) + 'x' + std::to_string(w);
}

// What the kernels of the kinds for sequences depend on besides the shapes.
std::string sequence_key(const Layer& layer) {
  std::string key;
  const auto number = [](double value) { return fmt::format("{:g}", value); };
  if (layer.kind == LayerKind::embedding) {
    const EmbeddingTable& table = layer.embedding;
    key += " vocabulary=" + std::to_string(table.vocabulary);
    if (table.positions > 0) key += " positions=" + std::to_string(table.positions);
    if (table.sinusoidal) key += " sinusoidal";
    if (table.segments > 0) key += " segments=" + std::to_string(table.segments);
    if (table.scaled) key += " scaled";
  } else if (layer.kind == LayerKind::attention) {
    const AttentionHeads& heads = layer.attention;
    key += " heads=" + std::to_string(heads.heads) + " kv=" + std::to_string(heads.kv_heads) +
           " dim=" + std::to_string(heads.head_dim);
    if (heads.causal) key += " causal";
    if (heads.rotary_base > 0) key += " rotary=" + number(heads.rotary_base);
    if (heads.dropout > 0) key += " dropout=" + number(heads.dropout);
  } else if (is_recurrence(layer.kind)) {
    const RecurrentStack& stack = layer.recurrence;
    key += " hidden=" + std::to_string(stack.hidden) + " layers=" + std::to_string(stack.layers);
    if (stack.bidirectional) key += " bidirectional";
    if (stack.unrolled) key += " unrolled";
    if (stack.gives_state) key += " state";
    if (stack.dropout > 0) key += " dropout=" + number(stack.dropout);
  } else if (layer.kind == LayerKind::dropout) {
    key += " p=" + number(layer.probability);
  } else if (layer.kind == LayerKind::gelu && layer.approximate) {
    key += " approximate";
  }
  if (layer.tied >= 0) key += " tied";
  return key;
}

}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count))
      throw Error(ErrorKind::input, "tensor of " + text_of(shape) + " elements is too large");
  }
  return count;
}

const char* name_of(LayerKind kind) {
  return kind_names.at(static_cast<std::size_t>(kind));
}

std::optional<LayerKind> layer_kind_named(std::string_view name) {
  for (std::size_t i = 0; i < kind_names.size(); ++i)
    if (name == kind_names[i]) return static_cast<LayerKind>(i);
  return std::nullopt;
}

bool is_recurrence(LayerKind kind) {
  return kind == LayerKind::rnn || kind == LayerKind::lstm || kind == LayerKind::gru;
}

int gates_of(LayerKind recurrence) {
  return recurrence == LayerKind::lstm ? 4 : recurrence == LayerKind::gru ? 3 : 1;
}

int states_of(LayerKind recurrence) {
  return recurrence == LayerKind::lstm ? 2 : 1;
}

const char* name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return "sgd";
    case OptimizerKind::adam:
      return "adam";
    case OptimizerKind::adamw:
      return "adamw";
  }
  return "";
}

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters) {
    if (__builtin_add_overflow(count, parameter.elements, &count))
      throw Error(ErrorKind::input, "model '" + name + "' has more than 9.2e18 parameters");
  }
  return count;
}

Flops Model::forward_flops() const {
  Flops sum;
  for (const Layer& layer : layers) sum = sum + layer.forward_flops;
  return sum;
}

std::int64_t Model::targets() const {
  return std::max<std::int64_t>(1, sequence);
}

std::int64_t Model::units_per_sample() const {
  return tokens > 0 ? element_count(input) : 1;
}

std::string text_of(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const std::int64_t extent : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

std::vector<std::vector<int>> consumers_of(const Model& model) {
  std::vector<std::vector<int>> consumers(model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    for (const int input : model.layers[i].inputs)
      consumers[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
  return consumers;
}

std::string operator_key(const Model& model, const Layer& layer) {
  std::string key = name_of(layer.kind);
  if (layer.kind == LayerKind::measured) key += " " + model.name + "/" + layer.name;
  for (const int input : layer.inputs)
    key += " in=" + text_of(model.layers.at(static_cast<std::size_t>(input)).output);
  key += " out=" + text_of(layer.output);
  const Window& w = layer.window;
  const bool conv = layer.kind == LayerKind::conv2d;
  if (conv || layer.kind == LayerKind::max_pool || layer.kind == LayerKind::avg_pool) {
    key += " k=" + pair_text(w.kernel_h, w.kernel_w) + " s=" + pair_text(w.stride_h, w.stride_w) +
           " p=" + pair_text(w.pad_h, w.pad_w);
    if (layer.kind != LayerKind::avg_pool) key += " d=" + pair_text(w.dilation_h, w.dilation_w);
    if (conv) key += " g=" + std::to_string(w.groups);
    if (layer.kind == LayerKind::avg_pool) key += w.count_padding ? " padding=counted" : " padding=left out";
  }
  key += sequence_key(layer);
  if (layer.bias) key += " bias";
  return key;
}

std::string optimizer_entry_name(const Optimizer& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::sgd:
      return optimizer.momentum > 0 ? "sgd-momentum" : "sgd";
    case OptimizerKind::adam:
      return "adam";
    case OptimizerKind::adamw:
      return "adamw";
  }
  return "";
}

}  // namespace foretrain

#include "sim/training/model.hpp"

#include <array>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

constexpr std::array<const char*, 12> kind_names = {"input",
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
                                                    "measured"};

std::string pair_text(int h, int w) {
  return std::to_string(h) + 'x' + std::to_string(w);
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

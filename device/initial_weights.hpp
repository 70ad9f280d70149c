// What the random weights of a new model look like, for every backend alike.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "sim/base/random.hpp"
#include "sim/training/model.hpp"

namespace foretrain::device {

// Standard deviation of a parameter of two dimensions or more. Convolutions by He et al. 2015, sqrt(2 /
// inputs); linear layers as PyTorch begins them, 1 / sqrt(3 inputs): with He's the logits of a model without
// batch norm (VGG-16) are so large that training runs to infinity, and numbers that are not finite draw less
// power and make kernels faster. Recurrences as PyTorch, by their state; rows of tables have the length 1.
inline double initial_deviation(const Model& model, const Parameter& parameter) {
  const double inputs = static_cast<double>(parameter.elements) / static_cast<double>(parameter.shape[0]);
  const Layer& layer = model.layers[static_cast<std::size_t>(parameter.layer)];
  if (layer.kind == LayerKind::embedding) return 1 / std::sqrt(inputs);
  if (is_recurrence(layer.kind)) return 1 / std::sqrt(3 * static_cast<double>(layer.recurrence.hidden));
  return layer.kind == LayerKind::linear ? 1 / std::sqrt(3 * inputs) : std::sqrt(2 / inputs);
}

// A parameter's own, by that of the run.
inline std::uint64_t initial_seed(std::uint64_t seed, std::size_t parameter) {
  return seed * 1'000'003 + parameter;
}

// Of a parameter's element, standard normal: device/cuda draws the same, but for the rounding of its
// logarithm and cosine, so that a seed means one model on every backend.
inline float initial_normal(std::uint64_t seed, std::size_t parameter, std::int64_t element) {
  const std::uint64_t bits =
      mixed_bits(mixed_bits(initial_seed(seed, parameter)) + static_cast<std::uint64_t>(element));
  const double u = (static_cast<double>(bits >> 40) + 1) * 0x1p-24,
               v = static_cast<double>(bits & 0xffffff) * 0x1p-24;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
}

// What all elements of a parameter of one dimension begin with: 1 for the scale of a norm, else 0.
inline double initial_constant(const Model& model, std::size_t index) {
  const Layer& layer = model.layers[static_cast<std::size_t>(model.parameters[index].layer)];
  const bool is_norm = layer.kind == LayerKind::batch_norm || layer.kind == LayerKind::layer_norm ||
                       layer.kind == LayerKind::rms_norm;
  return is_norm && static_cast<int>(index) == layer.parameters[0] ? 1 : 0;
}

}  // namespace foretrain::device

// What the random weights of a new model look like, for every backend alike.
#pragma once

#include <cmath>

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

// What all elements of a parameter of one dimension begin with: 1 for the scale of a norm, else 0.
inline double initial_constant(const Model& model, std::size_t index) {
  const Layer& layer = model.layers[static_cast<std::size_t>(model.parameters[index].layer)];
  const bool is_norm = layer.kind == LayerKind::batch_norm || layer.kind == LayerKind::layer_norm ||
                       layer.kind == LayerKind::rms_norm;
  return is_norm && static_cast<int>(index) == layer.parameters[0] ? 1 : 0;
}

}  // namespace foretrain::device

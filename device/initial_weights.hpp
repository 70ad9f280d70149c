// What the random weights of a new model look like, for every backend alike.
#pragma once

#include <cmath>

#include "sim/training/model.hpp"

namespace foretrain::device {

// Standard deviation of a parameter of two dimensions or more. Convolutions by He et al. 2015, sqrt(2 /
// inputs); linear layers as PyTorch begins them, 1 / sqrt(3 inputs): with He's the logits of a model without
// batch norm (VGG-16) are so large that training runs to infinity, and numbers that are not finite draw less
// power and make kernels faster.
inline double initial_deviation(const Model& model, const Parameter& parameter) {
  const double inputs = static_cast<double>(parameter.elements) / static_cast<double>(parameter.shape[0]);
  const Layer& layer = model.layers[static_cast<std::size_t>(parameter.layer)];
  return layer.kind == LayerKind::linear ? 1 / std::sqrt(3 * inputs) : std::sqrt(2 / inputs);
}

}  // namespace foretrain::device

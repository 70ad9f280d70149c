#include "device/reference/initial_weights.hpp"

#include "device/initial_weights.hpp"
#include "sim/base/random.hpp"

namespace foretrain::device::reference {

std::vector<double> initial_weights(const Model& model, std::size_t index, std::uint64_t seed) {
  const Parameter& parameter = model.parameters[index];
  const Layer& layer = model.layers[static_cast<std::size_t>(parameter.layer)];
  const bool is_scale = layer.kind == LayerKind::batch_norm && static_cast<int>(index) == layer.parameters[0];
  std::vector<double> weights(static_cast<std::size_t>(parameter.elements), is_scale ? 1.0 : 0.0);
  if (parameter.shape.size() <= 1) return weights;
  RandomStream stream(seed, {index});
  const double deviation = initial_deviation(model, parameter);
  for (double& value : weights) value = stream.normal() * deviation;
  return weights;
}

}  // namespace foretrain::device::reference

#include "device/reference/initial_weights.hpp"

#include "device/initial_weights.hpp"
#include "sim/base/random.hpp"

namespace foretrain::device::reference {

std::vector<double> initial_weights(const Model& model, std::size_t index, std::uint64_t seed) {
  const Parameter& parameter = model.parameters[index];
  std::vector<double> weights(static_cast<std::size_t>(parameter.elements), initial_constant(model, index));
  if (parameter.shape.size() <= 1) return weights;
  RandomStream stream(seed, {index});
  const double deviation = initial_deviation(model, parameter);
  for (double& value : weights) value = stream.normal() * deviation;
  return weights;
}

}  // namespace foretrain::device::reference

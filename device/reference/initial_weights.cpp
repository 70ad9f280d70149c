#include "device/reference/initial_weights.hpp"

#include "device/initial_weights.hpp"

namespace foretrain::device::reference {

std::vector<double> initial_weights(const Model& model, std::size_t index, std::uint64_t seed) {
  const Parameter& parameter = model.parameters[index];
  std::vector<double> weights(static_cast<std::size_t>(parameter.elements), initial_constant(model, index));
  if (parameter.shape.size() <= 1) return weights;
  const auto deviation = static_cast<float>(initial_deviation(model, parameter));
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = deviation * initial_normal(seed, index, static_cast<std::int64_t>(i));
  return weights;
}

}  // namespace foretrain::device::reference

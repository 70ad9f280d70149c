// What parameters are before the first step.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain::device::reference {

// Weights of conv2d and linear are normal (device/initial_weights.hpp), scales are 1, biases 0. `index` into
// Model::parameters; each has a random stream of its own.
std::vector<double> initial_weights(const Model& model, std::size_t index, std::uint64_t seed);

}  // namespace foretrain::device::reference

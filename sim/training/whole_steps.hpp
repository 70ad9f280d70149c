// What a whole step takes over the sum of its parts. Parts are timed with events between them, whole steps
// without: where a step draws the device's whole power, its clock differs between the two (vgg16 on an
// H200: 2.2 %).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// Seconds of the device for one step at a batch, summed over the parts; nothing where they are not known.
using SumOfParts = std::function<std::optional<double>(std::int64_t batch)>;

// Factor on the device times of all parts: of the profile's whole steps of the model at its length of
// sequence, interpolated over the logarithm of the batch, beyond the measured ones that of the nearest. Steps
// whose host takes as long as they do tell nothing and are left out. 1 where none is left.
double whole_over_parts(const Model& model, const Profile& profile, Precision precision, std::int64_t batch,
                        const SumOfParts& parts);

}  // namespace foretrain

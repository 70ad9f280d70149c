// PyTorch's copies of gradients into buckets and back, which a step of one worker does not have.
#pragma once

#include "sim/training/step_times.hpp"

namespace foretrain {

// Adds to each item that completes gradients their copies into buckets, and before the update those back,
// where the profile has a "gradient_copies" work of this model: one pass over all gradients.
void add_gradient_copies(StepTimes& times, const Model& model, const Profile& profile, Precision precision);

}  // namespace foretrain

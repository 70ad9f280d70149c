// PyTorch's copies of gradients into buckets and back, which a step of one worker does not have.
#pragma once

#include "sim/training/step_times.hpp"

namespace foretrain {

// StepWorkEntry::what of one pass of such copies over all gradients.
inline constexpr const char* gradient_copies_work = "gradient_copies";

// Adds to each item that completes gradients their copies into buckets, and before the update those back,
// where the profile has such a work of this model.
void add_gradient_copies(StepTimes& times, const Model& model, const Profile& profile, Precision precision);

}  // namespace foretrain

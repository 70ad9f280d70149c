// The copy of a batch from host memory to the device, as a part of a step.
#pragma once

#include <optional>

#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"
#include "sim/training/step_graph.hpp"

namespace foretrain {

// Seconds to copy so many bytes from pinned host memory, linear between the sizes that the profile holds;
// none where it holds none.
std::optional<double> host_to_device(const Profile& profile, double bytes);

// Bytes of a batch's samples (fp32) and labels.
double batch_bytes(const Model& model, std::int64_t batch);

// Every program copies its batch. Beside the step: on the copy engine, and the step ends no sooner, for the
// next one begins with it; a step takes the longer of both. Else before all else on the compute stream: a
// step takes the sum.
void add_input_copy(StepGraph& graph, Time device, Time host, bool beside);

}  // namespace foretrain

// What must be the same between the run that wrote a checkpoint and the one that goes on from it.
#pragma once

#include <cstdint>
#include <string>

#include "sim/input/scenario.hpp"

namespace foretrain {

// A line a property, "seed: 1": what the bytes of a checkpoint mean (backend, parameters, optimizer) and
// where in the data it stands (batches, data set, seed). Free to change are the learning rate, the length of
// the job, its evaluations and checkpoints, and the cluster.
std::string checkpoint_identity(const std::string& backend, const Scenario& scenario, std::uint64_t seed);

// "seed is 1 there, 2 here; ..."; empty where they are the same.
std::string identity_difference(const std::string& there, const std::string& here);

}  // namespace foretrain

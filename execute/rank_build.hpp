// The model of a scenario, built on a rank's device.
#pragma once

#include <memory>

#include "device/backend.hpp"
#include "execute/rank_run.hpp"

namespace foretrain {

// Throws Error (input) where the batch does not divide into micro-batches, (failure) where the device's
// memory is too small; says how much a step needs.
std::unique_ptr<device::Program> build_program(const Scenario& scenario, const RankOptions& options,
                                               device::Worker& worker);
// The same for another number of samples at a time, with the weights and the optimizer's state of `shares`.
std::unique_ptr<device::Program> build_resized(const Scenario& scenario, std::int64_t batch,
                                               const RankOptions& options, device::Worker& worker,
                                               device::Program& shares);

}  // namespace foretrain

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
// The same for another number of samples at a time, and the scenario's model or the same at another length,
// with the weights and the optimizer's state of `shares`.
std::unique_ptr<device::Program> build_resized(const Scenario& scenario, const Model& model,
                                               std::int64_t batch, const RankOptions& options,
                                               device::Worker& worker, device::Program& shares);
// The model of a scenario of unequal lengths with sequences of one of them. Throws Error (input) where its
// parameters depend on the length.
std::shared_ptr<const Model> model_of_length(const Scenario& scenario, std::int64_t length);

}  // namespace foretrain

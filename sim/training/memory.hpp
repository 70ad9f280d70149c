// How much memory of a GPU a worker's step takes at its peak, before anyone waits for the answer.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/output/result.hpp"
#include "sim/training/lowering.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// Bytes of one activation: 4 in fp32 and tf32, 2 in bf16 and fp16.
int activation_bytes(Precision precision);

// What a step keeps on the device besides parameters: the very plan by which the cuda backend lays out its
// memory, so that the estimate and the run agree by construction.
struct ActivationPlan {
  lowering::Lowered lowered;        // operators after fusion, and a place for each tensor
  std::int64_t arena_bytes = 0;     // activations and their gradients, tensors that outlive each other share
  std::int64_t input_bytes = 0;     // a batch of images, channels padded as tensor cores want them; or tokens
  std::int64_t input_channels = 0;  // as stored
  std::int64_t statistics_bytes = 0;  // of batch norms: moments and coefficients a channel, fp32
  std::int64_t reserve_bytes = 0;     // of recurrences, see lowering::recurrence_reserve_bytes
  std::int64_t bytes() const { return arena_bytes + input_bytes + statistics_bytes + reserve_bytes; }
};
// Error (unavailable) for a model that is a list of parameters.
ActivationPlan activation_plan(const Model& model, std::int64_t batch, Precision precision);

// Elements of the flat buffers of parameters, gradients and optimizer state: each parameter begins at a
// multiple of 128 elements.
std::int64_t flat_elements(const Model& model);

struct MemoryEstimate {
  Memory memory;  // a list of parameters has no activations here: their part is not known
  Origin workspace_origin = Origin::assumed;
};
// Parameters (fp32, and a copy in bf16 or fp16), gradients, optimizer state, activations, workspace. Buckets
// are views of the flat gradients and take nothing. Workspace is the largest that a layer's library calls
// asked for in calibration, of the model and precision at the measured batch nearest above (below, where none
// is), else assumed from the largest activation; and the largest weight's gradient in fp32, made aside.
// Capacity is that of the profile's GPU less what a CUDA context takes, else 0: not known.
MemoryEstimate estimate_memory(const Model& model, std::int64_t batch, Precision precision,
                               Precision gradients, const Optimizer& optimizer, const Profile* profile);

// The same, computed once for a model and a profile that several scenarios share.
MemoryEstimate shared_memory_estimate(const std::shared_ptr<const Model>& model, std::int64_t batch,
                                      Precision precision, Precision gradients, const Optimizer& optimizer,
                                      const std::shared_ptr<const Profile>& profile);

// The largest batch that fits; 0 where none does, or where capacity or activations are not known.
std::int64_t largest_batch(const Model& model, Precision precision, Precision gradients,
                           const Optimizer& optimizer, const Profile& profile);

}  // namespace foretrain

// The simulator's gradient buckets, laid over a program's flat buffers.
#pragma once

#include <vector>

#include "device/backend.hpp"
#include "sim/input/scenario.hpp"
#include "sim/training/buckets.hpp"

namespace foretrain {

struct PlannedBucket {
  Bucket bucket;             // as sim/training/buckets.hpp makes them
  device::Buffer gradients;  // its part of the flat buffer; gaps between aligned parameters included
  device::Buffer weights;    // the same parameters; empty where the strategy moves no weights
  std::size_t ready = 0;     // index into backward_items: complete after it, and the buckets before it too
  int server = 0;            // parameter_server: the rank that updates it
};

device::ElementType element_of(Precision gradients);

// Empty for a strategy without communication. Throws Error (failure) where a bucket is not contiguous in the
// buffer, or where no item of the backward pass makes a parameter's gradient.
std::vector<PlannedBucket> plan_buckets(const Model& model, const Strategy& strategy, int workers,
                                        device::Program& program);

}  // namespace foretrain

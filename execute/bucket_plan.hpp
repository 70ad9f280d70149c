// The simulator's gradient buckets (fuse() of sim/training/buckets), laid over a program's flat buffers.
#pragma once

#include <vector>

#include "device/backend.hpp"
#include "sim/input/scenario.hpp"
#include "sim/training/buckets.hpp"

namespace foretrain {

struct PlannedBucket {
  Bucket bucket;
  device::Buffer gradients;  // its part of the flat buffer; gaps between aligned parameters included
  // Further parts, where a table that is gathered lies between its parameters.
  std::vector<device::Buffer> further;
  device::Buffer weights;   // the same parameters; empty where the strategy moves no weights
  device::FlatRange range;  // both, in elements
  int server = 0;           // parameter_server: the rank that updates it
};

device::ElementType element_of(Precision gradients);

// Empty for a strategy without communication. `item_end`: of the backward pass's items in seconds after its
// begin, the same on all ranks; a fusion that goes by time needs it. Throws Error (failure) where a bucket is
// not contiguous in the buffer, or where no item of the backward pass makes a parameter's gradient.
std::vector<PlannedBucket> plan_buckets(const Model& model, const Strategy& strategy, int workers,
                                        device::Program& program, const std::vector<double>& item_end = {});
// Whether plan_buckets asks for item_end.
// Where a bucket is a table that is gathered (Bucket::is_sparse) there is neither buffer nor range.
bool needs_item_end(const Strategy& strategy, int workers);

}  // namespace foretrain

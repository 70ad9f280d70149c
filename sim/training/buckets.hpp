// Gradient buckets of data parallelism, shared by simulator and executor.
#pragma once

#include <vector>

#include "sim/base/units.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

struct Bucket {
  std::vector<int>
      parameters;  // indices into Model::parameters, in the order in which they lie in the bucket
  Bytes bytes;
};

// Bytes of one gradient element: fp32 and tf32 4, bf16 and fp16 2.
std::int64_t element_bytes(Precision precision);

// PyTorch's DistributedDataParallel: reverse registration order, a parameter is never split, a bucket closes
// once its size reaches the cap; the first bucket has a cap of its own
// (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size). Parameters without elements
// lie in the bucket of their neighbours.
std::vector<Bucket> ddp_buckets(const Model& model, Bytes first_cap, Bytes cap, Precision gradients);

}  // namespace foretrain

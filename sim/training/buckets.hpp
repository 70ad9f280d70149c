// How the gradients of data parallelism are put together before they are combined: one policy, one function,
// shared by simulator and executor.
#pragma once

#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// buckets: those of PyTorch's DistributedDataParallel. horovod: what became complete within a cycle, up to a
// threshold. packs: a fixed number of equal parts. groups: neighbouring small tensors. none: each tensor by
// itself.
enum class FusionKind { buckets, horovod, packs, groups, none };
const char* name_of(FusionKind kind);

struct Fusion {
  FusionKind kind = FusionKind::buckets;
  Bytes bucket = Bytes(25 << 20), first_bucket = Bytes(1 << 20);  // buckets: where one closes
  Bytes threshold = Bytes(128 << 20);                             // horovod: no more than this together
  Time cycle = Time::picoseconds(1'000'000'000);                  // horovod: 1 ms, how often it looks
  int packs = 4;                                                  // packs
  Bytes max_bytes = Bytes(64 << 10);                              // groups: of a small tensor, at most
  int max_group = 10;                                             // groups: small tensors together, at most
};

struct Bucket {
  std::vector<int>
      parameters;  // indices into Model::parameters, in the order in which they lie in the bucket
  Bytes bytes;
  int ready = 0;  // item of the backward pass after which it leaves; those before it have left by then
  // packs: elements at the beginning of its first parameter, and at the end of its last, that lie in the
  // neighbours.
  std::int64_t skipped = 0, left = 0;
};

// The backward pass as far as fusion rests on it.
struct GradientOrder {
  std::vector<int> completing;   // for every parameter the item after which its gradient is complete
  std::vector<double> item_end;  // seconds after the pass began; needed by horovod alone
};

// Bytes of one gradient element: fp32 and tf32 4, bf16 and fp16 2.
std::int64_t element_bytes(Precision precision);

// The buckets in the order in which they leave: reverse registration order. Every element lies in exactly
// one. Throws Error (input) for sizes that are not above zero, (failure) where horovod knows no times.
std::vector<Bucket> fuse(const Model& model, const Fusion& fusion, Precision gradients,
                         const GradientOrder& order);

// PyTorch's DistributedDataParallel: reverse registration order, a parameter is never split, a bucket closes
// once its size reaches the cap; the first bucket has a cap of its own
// (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size). Parameters without elements
// lie in the bucket of their neighbours. `ready` is left at 0.
std::vector<Bucket> ddp_buckets(const Model& model, Bytes first_cap, Bytes cap, Precision gradients);

}  // namespace foretrain

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

// How the gradient of an embedding's table is combined. dense: as any other. sparse: every rank gathers the
// rows of all ranks' tokens with their numbers, which grows with the ranks. tied_sparse: the same for a table
// that the output uses too, whose dense gradient is then gathered as rows as well (TensorFlow's
// IndexedSlices; Cavdar et al. 2019).
enum class EmbeddingGradient { dense, sparse, tied_sparse };
const char* name_of(EmbeddingGradient kind);

struct Fusion {
  FusionKind kind = FusionKind::buckets;
  Bytes bucket = Bytes(25 << 20), first_bucket = Bytes(1 << 20);  // buckets: where one closes
  Bytes threshold = Bytes(128 << 20);                             // horovod: no more than this together
  Time cycle = Time::picoseconds(1'000'000'000);                  // horovod: 1 ms, how often it looks
  int packs = 4;                                                  // packs
  Bytes max_bytes = Bytes(64 << 10);                              // groups: of a small tensor, at most
  int max_group = 10;                                             // groups: small tensors together, at most
  EmbeddingGradient embedding = EmbeddingGradient::dense;         // of all policies
};

struct Bucket {
  std::vector<int>
      parameters;  // indices into Model::parameters, in the order in which they lie in the bucket
  Bytes bytes;
  int ready = 0;  // item of the backward pass after which it leaves; those before it have left by then
  // packs: elements at the beginning of its first parameter, and at the end of its last, that lie in the
  // neighbours.
  std::int64_t skipped = 0, left = 0;
  // A table whose rows are gathered: a row and its number, rows a sample, and rows besides. `bytes` is 0.
  std::int64_t row_bytes = 0, rows_per_sample = 0, rows = 0;
  bool is_sparse() const { return row_bytes > 0; }
  // What one rank gives, of a batch.
  Bytes sparse_bytes(std::int64_t batch) const { return Bytes(row_bytes * (rows_per_sample * batch + rows)); }
};

// The backward pass as far as fusion rests on it.
struct GradientOrder {
  std::vector<int> completing;   // for every parameter the item after which its gradient is complete
  std::vector<double> item_end;  // seconds after the pass began; needed by horovod alone
};

// Bytes of one gradient element: fp32 and tf32 4, bf16 and fp16 2.
std::int64_t element_bytes(Precision precision);

// The buckets in the order in which they leave: reverse registration order. Every element lies in exactly
// one. A sparse table is a bucket of its own. Throws Error (input) for sizes that are not above zero, for a
// sparse table that the output shares or that is not there, (failure) where horovod knows no times.
std::vector<Bucket> fuse(const Model& model, const Fusion& fusion, Precision gradients,
                         const GradientOrder& order);

// PyTorch's DistributedDataParallel: reverse registration order, a parameter is never split, a bucket closes
// once its size reaches the cap; the first bucket has a cap of its own
// (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size). Parameters without elements
// lie in the bucket of their neighbours. `ready` is left at 0.
std::vector<Bucket> ddp_buckets(const Model& model, Bytes first_cap, Bytes cap, Precision gradients);

}  // namespace foretrain

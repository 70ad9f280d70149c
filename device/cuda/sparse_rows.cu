// A table's gradient as rows and their numbers, and the sum of several ranks' rows.
#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/sequence.hpp"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int row_threads = 128;

__device__ int32_t token_of(const SparseRows& shape, const int32_t* tokens, int64_t item) {
  const int64_t of_lookup = shape.batch * shape.length;
  const int64_t row = item % of_lookup;
  const int stream = shape.stream[item / of_lookup];
  return tokens[(row / shape.length * shape.streams + stream) * shape.length + row % shape.length];
}

// Of each token the first place at which it stands.
__global__ void first_kernel(SparseRows shape, int64_t count, const int32_t* tokens, int32_t* first) {
  for (int64_t item = first_item(); item < count; item += item_step())
    atomicMin(first + token_of(shape, tokens, item), static_cast<int32_t>(item));
}

// A block a row: those of the whole table that no token names, then those of the tokens.
__global__ void __launch_bounds__(row_threads)
    gather_kernel(SparseRows shape, const int32_t* tokens, const int32_t* first, const void* table,
                  Scalar type, int64_t* numbers, void* values) {
  const int64_t row = blockIdx.x, before = shape.whole ? shape.vocabulary : 0;
  int64_t number = -1;
  if (row < before) {
    if (first[row] == 0x7f7f7f7f) number = row;
  } else {
    const int32_t token = token_of(shape, tokens, row - before);
    if (first[token] == row - before) number = token;
  }
  if (threadIdx.x == 0) numbers[row] = number;
  if (number < 0) return;
  for (int64_t f = threadIdx.x; f < shape.features; f += row_threads)
    store_scalar(values, row * shape.features + f, type,
                 load_scalar(table, number * shape.features + f, type));
}

// No number stands twice among one rank's rows.
__global__ void __launch_bounds__(row_threads)
    add_kernel(SparseRows shape, const int64_t* numbers, const void* values, void* table, Scalar type) {
  const int64_t row = blockIdx.x, number = numbers[row];
  if (number < 0) return;
  for (int64_t f = threadIdx.x; f < shape.features; f += row_threads) {
    const int64_t to = number * shape.features + f;
    store_scalar(table, to, type,
                 load_scalar(table, to, type) + load_scalar(values, row * shape.features + f, type));
  }
}

}  // namespace

void gather_rows(const SparseRows& shape, const std::int32_t* tokens, const void* table, Scalar type,
                 std::int32_t* first, std::int64_t* numbers, void* values, cudaStream_t stream) {
  FORETRAIN_CUDA(cudaMemsetAsync(first, 0x7f, static_cast<std::size_t>(shape.vocabulary) * 4, stream));
  first_kernel<<<blocks_for(shape.tokens()), item_threads, 0, stream>>>(shape, shape.tokens(), tokens, first);
  FORETRAIN_LAUNCHED();
  gather_kernel<<<static_cast<unsigned>(shape.rows()), row_threads, 0, stream>>>(shape, tokens, first, table,
                                                                                 type, numbers, values);
  FORETRAIN_LAUNCHED();
}

void add_rows(const SparseRows& shape, const std::int64_t* numbers, const void* values, void* table,
              Scalar type, cudaStream_t stream) {
  add_kernel<<<static_cast<unsigned>(shape.rows()), row_threads, 0, stream>>>(shape, numbers, values, table,
                                                                              type);
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

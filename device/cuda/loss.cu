// Softmax cross-entropy, forward and backward in one kernel: a block a row, and the block that ends last adds
// the rows' losses in order.
#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int threads = 256;

// Calls f on each element of a row, in vectors of 16 bytes where they begin at one: rows of an odd number of
// classes do not all begin there. f(value) gives what is written, where `writes`.
template <typename T, bool writes, typename F>
__device__ void each_class(const T* row, T* out, int64_t classes, F&& f) {
  constexpr int width = 16 / sizeof(T);
  using V = Vector<T, width>;
  using Raw = typename V::Raw;
  const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % width);
  int64_t head = (width - misplaced) % width;
  if (head > classes) head = classes;
  const bool aligned = !writes || (reinterpret_cast<uintptr_t>(out + head) % 16 == 0);
  const int64_t vectors = aligned ? (classes - head) / width : 0;
  const auto single = [&](int64_t i) {
    const float value = f(to_float(row[i]), i);
    if (writes) from_float(value, out[i]);
  };
  for (int64_t i = threadIdx.x; i < head; i += threads) single(i);
  for (int64_t v = threadIdx.x; v < vectors; v += threads) {
    float values[width];
    V::unpack(reinterpret_cast<const Raw*>(row + head)[v], values);
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] = f(values[i], head + v * width + i);
    if (writes) V::store(out + head, v, values);
  }
  for (int64_t i = head + vectors * width + threadIdx.x; i < classes; i += threads) single(i);
}

// counters[0]: blocks that have ended; counters[1]: rows that have a label.
__global__ void __launch_bounds__(threads)
    count_kernel(int64_t rows, const int32_t* labels, unsigned* counters) {
  float count = 0;
  for (int64_t i = threadIdx.x; i < rows; i += threads) count += labels[i] >= 0;
  count = reduce_block<false>(count);
  if (threadIdx.x == 0) counters[1] = static_cast<unsigned>(count);
}

template <typename T>
__global__ void __launch_bounds__(threads)
    cross_entropy_kernel(int64_t rows, int64_t classes, const T* logits, const int32_t* labels, T* gradient,
                         float* losses, float* loss, unsigned* counters, bool all_due) {
  const int64_t row = blockIdx.x;
  const T* from = logits + row * classes;
  const int label = labels[row];
  const float due = label < 0 ? 0 : to_float(from[label]);  // before a gradient lies there
  float largest = -INFINITY, sum = 0;
  each_class<T, false>(from, nullptr, classes, [&](float x, int64_t) {
    if (x > largest) {
      sum *= expf(largest - x);
      largest = x;
    }
    sum += expf(x - largest);
    return x;
  });
  const float all = reduce_block<true>(largest);
  sum = reduce_block<false>(largest == -INFINITY ? 0 : sum * expf(largest - all));
  const unsigned counted = all_due ? gridDim.x : counters[1];
  const float share = label < 0 || counted == 0 ? 0 : 1.0f / static_cast<float>(counted);
  each_class<T, true>(from, gradient + row * classes, classes, [&](float x, int64_t i) {
    return (expf(x - all) / sum - (i == label ? 1.0f : 0.0f)) * share;
  });
  __shared__ bool last;
  if (threadIdx.x == 0) {
    losses[row] = label < 0 ? 0 : all + logf(sum) - due;
    __threadfence();
    last = atomicAdd(counters, 1u) == gridDim.x - 1;
    if (last) *counters = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  float total = 0;
  for (int64_t i = threadIdx.x; i < rows; i += threads) total += __ldcg(losses + i);
  total = reduce_block<false>(total);
  if (threadIdx.x == 0) *loss = counted == 0 ? 0 : total / static_cast<float>(counted);
}

}  // namespace

void cross_entropy(Scalar type, std::int64_t rows, std::int64_t classes, const void* logits,
                   const std::int32_t* labels, bool all_due, void* gradient, float* losses, float* loss,
                   unsigned* counters, cudaStream_t stream) {
  if (!all_due) {
    count_kernel<<<1, threads, 0, stream>>>(rows, labels, counters);
    FORETRAIN_LAUNCHED();
  }
  with_type(type, [&](auto element) {
    using T = decltype(element);
    cross_entropy_kernel<T><<<static_cast<unsigned>(rows), threads, 0, stream>>>(
        rows, classes, static_cast<const T*>(logits), labels, static_cast<T*>(gradient), losses, loss,
        counters, all_due);
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

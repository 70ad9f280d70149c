// Softmax cross-entropy, forward and backward in one kernel: a block a sample, and the block that ends last
// adds the samples' losses in order.
#include "device/cuda/check.hpp"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int threads = 256;

// The maximum or the sum over the block, for all of its threads.
template <bool maximum>
__device__ float reduce(float value, float* shared) {
  for (int lane = 16; lane > 0; lane /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, lane);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float all = shared[0];
  for (int warp = 1; warp < threads / 32; ++warp) {
    all = maximum ? fmaxf(all, shared[warp]) : all + shared[warp];
  }
  return all;
}

template <typename T>
__global__ void __launch_bounds__(threads)
    cross_entropy_kernel(int64_t batch, int64_t classes, const T* logits, const int32_t* labels, T* gradient,
                         float* rows, float* loss, unsigned* counter) {
  __shared__ float shared[threads / 32];
  const int64_t sample = blockIdx.x;
  const T* row = logits + sample * classes;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < classes; i += threads) largest = fmaxf(largest, to_float(row[i]));
  largest = reduce<true>(largest, shared);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < classes; i += threads) sum += expf(to_float(row[i]) - largest);
  sum = reduce<false>(sum, shared);
  const int label = labels[sample];
  const float share = 1.0f / static_cast<float>(batch);
  for (int64_t i = threadIdx.x; i < classes; i += threads) {
    const float p = expf(to_float(row[i]) - largest) / sum;
    from_float((p - (i == label ? 1.0f : 0.0f)) * share, gradient[sample * classes + i]);
  }
  __shared__ bool last;
  if (threadIdx.x == 0) {
    rows[sample] = largest + logf(sum) - to_float(row[label]);
    __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  float total = 0;
  for (int64_t i = threadIdx.x; i < batch; i += threads) total += __ldcg(rows + i);
  total = reduce<false>(total, shared);
  if (threadIdx.x == 0) *loss = total * share;
}

}  // namespace

void cross_entropy(Scalar type, std::int64_t batch, std::int64_t classes, const void* logits,
                   const std::int32_t* labels, void* gradient, float* rows, float* loss, unsigned* counter,
                   cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    cross_entropy_kernel<T><<<static_cast<unsigned>(batch), threads, 0, stream>>>(
        batch, classes, static_cast<const T*>(logits), labels, static_cast<T*>(gradient), rows, loss,
        counter);
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

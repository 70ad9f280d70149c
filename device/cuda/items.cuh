// Grids of elementwise kernels, and reductions over a block.
#pragma once

#include <algorithm>
#include <cstdint>

namespace foretrain::device::cuda {

inline constexpr int item_threads = 256;
inline constexpr int64_t most_item_blocks = 132 * 16;

inline unsigned blocks_for(int64_t items) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((items + item_threads - 1) / item_threads, 1, most_item_blocks));
}
__device__ inline int64_t first_item() {
  return static_cast<int64_t>(blockIdx.x) * item_threads + threadIdx.x;
}
__device__ inline int64_t item_step() {
  return static_cast<int64_t>(gridDim.x) * item_threads;
}

// The maximum or the sum over a block of up to 1,024 threads (whole warps), for all of them.
template <bool maximum>
__device__ float reduce_block(float value) {
  __shared__ float shared[32];
  for (int lane = 16; lane > 0; lane /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, lane);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float all = shared[0];
  for (int warp = 1; warp < blockDim.x / 32; ++warp) {
    all = maximum ? fmaxf(all, shared[warp]) : all + shared[warp];
  }
  return all;
}

}  // namespace foretrain::device::cuda

// Sums over the rows of a rows x channels tensor in one launch: each block sums some rows of a chunk of
// channels, and the block that ends last for its chunk adds the blocks' sums in a fixed order.
#pragma once

#include <algorithm>

#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {

inline constexpr int column_threads = 256;
inline constexpr int column_unroll = 4;      // independent loads in flight a thread
inline constexpr int column_blocks = 528;    // four blocks on each of 132 multiprocessors
inline constexpr int column_shared = 4096;   // floats: two sums of eight channels a thread
inline constexpr int widest_chunk = 64 * 8;  // channels of one chunk

// Threads along x are neighbouring vectors of channels, along y rows; blocks along x are groups of rows,
// along y chunks of channels.
struct ColumnGrid {
  dim3 grid, block;
};

// `reducing`: narrow chunks, so that the last block of each has few sums to add and several add at once; else
// wide ones, whose reads are longest. blocks: at most so many in all.
inline ColumnGrid column_grid(int64_t rows, int64_t channels, int width, bool reducing,
                              int64_t blocks = column_blocks) {
  const int64_t vectors = (channels + width - 1) / width;
  const int64_t least = std::min<int64_t>(vectors, 8), most = std::min<int64_t>(vectors, reducing ? 16 : 64);
  // The narrowest (widest) chunk that divides the channels, if there is one.
  int64_t along = reducing ? least : std::min<int64_t>(vectors, 32);
  for (int64_t candidate = most; candidate >= least; --candidate) {
    if (vectors % candidate != 0) continue;
    along = candidate;
    if (!reducing) break;
  }
  const int64_t down = column_threads / along;
  const int64_t chunks = (vectors + along - 1) / along;
  const int64_t wanted = (rows + down * column_unroll - 1) / (down * column_unroll);
  const int64_t groups = std::min(wanted, std::max<int64_t>(1, blocks / chunks));
  return {dim3(static_cast<unsigned>(groups), static_cast<unsigned>(chunks)),
          dim3(static_cast<unsigned>(along), static_cast<unsigned>(down))};
}

__device__ inline int thread_index() {
  return threadIdx.y * blockDim.x + threadIdx.x;
}

// Adds each thread's two sums over the block's rows and then over all blocks. True in the one block of each
// chunk that has the totals: shared[i] and shared[chunk + i] for its channels i < chunk = blockDim.x * width.
template <int width>
__device__ bool reduce_columns(const float (&first)[width], const float (&second)[width], float* shared,
                               const Reduction& reduction) {
  const int chunk = blockDim.x * width;
  const int columns = 2 * chunk;
  const int threads = blockDim.x * blockDim.y;
  const int thread = thread_index();
#pragma unroll
  for (int i = 0; i < width; ++i) {
    shared[threadIdx.y * columns + threadIdx.x * width + i] = first[i];
    shared[threadIdx.y * columns + chunk + threadIdx.x * width + i] = second[i];
  }
  __syncthreads();
  float* partial = reduction.partial + static_cast<int64_t>(blockIdx.y) * gridDim.x * columns;
  for (int column = thread; column < columns; column += threads) {
    float sum = 0;
    for (int row = 0; row < blockDim.y; ++row) sum += shared[row * columns + column];
    partial[static_cast<int64_t>(blockIdx.x) * columns + column] = sum;
  }
  __threadfence();
  __shared__ bool last;
  __syncthreads();
  if (thread == 0) {
    last = atomicAdd(&reduction.counters[blockIdx.y], 1u) == gridDim.x - 1;
    if (last) reduction.counters[blockIdx.y] = 0;
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();

  // Groups of threads take the blocks in turn, four columns a thread where they divide.
  const int wide = columns % 4 == 0 ? 4 : 1;
  const int vectors = columns / wide;
  const int groups = max(1, threads / vectors);
  const int group = thread / vectors;
  if (group < groups) {
    for (int vector = thread % vectors; vector < vectors; vector += threads) {
      float sum[4] = {0, 0, 0, 0};
      if (wide == 4) {
#pragma unroll 8
        for (int block = group; block < gridDim.x; block += groups) {
          const float4 v = __ldcg(reinterpret_cast<const float4*>(partial) +
                                  static_cast<int64_t>(block) * vectors + vector);
          sum[0] += v.x;
          sum[1] += v.y;
          sum[2] += v.z;
          sum[3] += v.w;
        }
      } else {
        for (int block = group; block < gridDim.x; block += groups) {
          sum[0] += __ldcg(partial + static_cast<int64_t>(block) * vectors + vector);
        }
      }
      for (int i = 0; i < wide; ++i) shared[group * columns + vector * wide + i] = sum[i];
    }
  }
  __syncthreads();
  for (int column = thread; column < columns; column += threads) {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += shared[g * columns + column];
    shared[column] = sum;  // column of group 0 is this thread's alone
  }
  __syncthreads();
  return true;
}

}  // namespace foretrain::device::cuda

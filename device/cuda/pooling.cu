// Max and average pooling, channels-last. A global pool is an average pool whose window is the image.
// Backward passes gather: each input element sums the windows that hold it, so that no atomics are needed.
#include <algorithm>

#include "device/cuda/check.hpp"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int threads = 256;

unsigned blocks_for(int64_t items) {
  return static_cast<unsigned>((items + threads - 1) / threads);
}

struct Place {
  int64_t sample;
  int row, column;
  int64_t vector;
};
__device__ Place place_of(int64_t index, int64_t vectors, int height, int width) {
  Place place;
  place.vector = index % vectors;
  index /= vectors;
  place.column = static_cast<int>(index % width);
  index /= width;
  place.row = static_cast<int>(index % height);
  place.sample = index / height;
  return place;
}

// First and last output whose window holds input `at`.
__device__ int first_window(int at, int pad, int kernel, int stride) {
  const int from = at + pad - kernel + 1;
  return from <= 0 ? 0 : (from + stride - 1) / stride;
}
__device__ int last_window(int at, int pad, int stride, int count) {
  return min((at + pad) / stride, count - 1);
}

template <typename T, int width>
__global__ void max_forward_kernel(PoolShape s, const T* x, T* y, uint8_t* choice) {
  using V = Vector<T, width>;
  using Choice = typename Word<width>::type;
  const int64_t vectors = s.channels / width;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= s.batch * s.out_h * s.out_w * vectors) return;
  const Place at = place_of(index, vectors, s.out_h, s.out_w);
  float best[width];
  union {
    Choice raw;
    uint8_t items[width];
  } chosen;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    best[i] = -INFINITY;
    chosen.items[i] = 0;
  }
  for (int kh = 0; kh < s.kernel_h; ++kh) {
    const int row = at.row * s.stride_h - s.pad_h + kh;
    if (row < 0 || row >= s.in_h) continue;
    for (int kw = 0; kw < s.kernel_w; ++kw) {
      const int column = at.column * s.stride_w - s.pad_w + kw;
      if (column < 0 || column >= s.in_w) continue;
      float values[width];
      V::unpack(V::load(x, ((at.sample * s.in_h + row) * s.in_w + column) * vectors + at.vector), values);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (values[i] > best[i]) {
          best[i] = values[i];
          chosen.items[i] = static_cast<uint8_t>(kh * s.kernel_w + kw);
        }
      }
    }
  }
  V::store(y, index, best);
  reinterpret_cast<Choice*>(choice)[index] = chosen.raw;
}

template <typename T, int width>
__global__ void max_backward_kernel(PoolShape s, const T* dy, const uint8_t* choice, T* dx) {
  using V = Vector<T, width>;
  using Choice = typename Word<width>::type;
  const int64_t vectors = s.channels / width;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= s.batch * s.in_h * s.in_w * vectors) return;
  const Place at = place_of(index, vectors, s.in_h, s.in_w);
  float sum[width] = {};
  const int last_row = last_window(at.row, s.pad_h, s.stride_h, s.out_h);
  const int last_column = last_window(at.column, s.pad_w, s.stride_w, s.out_w);
  for (int row = first_window(at.row, s.pad_h, s.kernel_h, s.stride_h); row <= last_row; ++row) {
    for (int column = first_window(at.column, s.pad_w, s.kernel_w, s.stride_w); column <= last_column;
         ++column) {
      const int kh = at.row + s.pad_h - row * s.stride_h;
      const int kw = at.column + s.pad_w - column * s.stride_w;
      const int64_t from = ((at.sample * s.out_h + row) * s.out_w + column) * vectors + at.vector;
      union {
        Choice raw;
        uint8_t items[width];
      } chosen;
      chosen.raw = __ldg(reinterpret_cast<const Choice*>(choice) + from);
      float values[width];
      V::unpack(V::load(dy, from), values);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (chosen.items[i] == kh * s.kernel_w + kw) sum[i] += values[i];
      }
    }
  }
  V::store(dx, index, sum);
}

__device__ float elements_in_window(const PoolShape& s, int row, int column) {
  if (s.count_padding) return static_cast<float>(s.kernel_h * s.kernel_w);
  const int top = max(row * s.stride_h - s.pad_h, 0);
  const int bottom = min(row * s.stride_h - s.pad_h + s.kernel_h, s.in_h);
  const int left = max(column * s.stride_w - s.pad_w, 0);
  const int right = min(column * s.stride_w - s.pad_w + s.kernel_w, s.in_w);
  return static_cast<float>(max(bottom - top, 1) * max(right - left, 1));
}

template <typename T, int width>
__global__ void avg_forward_kernel(PoolShape s, const T* x, T* y) {
  using V = Vector<T, width>;
  const int64_t vectors = s.channels / width;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= s.batch * s.out_h * s.out_w * vectors) return;
  const Place at = place_of(index, vectors, s.out_h, s.out_w);
  float sum[width] = {};
  for (int kh = 0; kh < s.kernel_h; ++kh) {
    const int row = at.row * s.stride_h - s.pad_h + kh;
    if (row < 0 || row >= s.in_h) continue;
#pragma unroll 8
    for (int kw = 0; kw < s.kernel_w; ++kw) {
      const int column = at.column * s.stride_w - s.pad_w + kw;
      if (column < 0 || column >= s.in_w) continue;
      float values[width];
      V::unpack(V::load(x, ((at.sample * s.in_h + row) * s.in_w + column) * vectors + at.vector), values);
#pragma unroll
      for (int i = 0; i < width; ++i) sum[i] += values[i];
    }
  }
  const float factor = 1.0f / elements_in_window(s, at.row, at.column);
#pragma unroll
  for (int i = 0; i < width; ++i) sum[i] *= factor;
  V::store(y, index, sum);
}

template <typename T, int width>
__global__ void avg_backward_kernel(PoolShape s, const T* dy, T* dx) {
  using V = Vector<T, width>;
  const int64_t vectors = s.channels / width;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= s.batch * s.in_h * s.in_w * vectors) return;
  const Place at = place_of(index, vectors, s.in_h, s.in_w);
  float sum[width] = {};
  const int last_row = last_window(at.row, s.pad_h, s.stride_h, s.out_h);
  const int last_column = last_window(at.column, s.pad_w, s.stride_w, s.out_w);
  for (int row = first_window(at.row, s.pad_h, s.kernel_h, s.stride_h); row <= last_row; ++row) {
    for (int column = first_window(at.column, s.pad_w, s.kernel_w, s.stride_w); column <= last_column;
         ++column) {
      float values[width];
      V::unpack(V::load(dy, ((at.sample * s.out_h + row) * s.out_w + column) * vectors + at.vector), values);
      const float factor = 1.0f / elements_in_window(s, row, column);
#pragma unroll
      for (int i = 0; i < width; ++i) sum[i] += values[i] * factor;
    }
  }
  V::store(dx, index, sum);
}

}  // namespace

void max_pool_forward(Scalar type, const PoolShape& s, const void* x, void* y, std::uint8_t* choice,
                      cudaStream_t stream) {
  with_vector(type, s.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    max_forward_kernel<T, w>
        <<<blocks_for(s.batch * s.out_h * s.out_w * s.channels / w), threads, 0, stream>>>(
            s, static_cast<const T*>(x), static_cast<T*>(y), choice);
  });
  FORETRAIN_LAUNCHED();
}

void max_pool_backward(Scalar type, const PoolShape& s, const void* dy, const std::uint8_t* choice, void* dx,
                       cudaStream_t stream) {
  with_vector(type, s.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    max_backward_kernel<T, w><<<blocks_for(s.batch * s.in_h * s.in_w * s.channels / w), threads, 0, stream>>>(
        s, static_cast<const T*>(dy), choice, static_cast<T*>(dx));
  });
  FORETRAIN_LAUNCHED();
}

void avg_pool_forward(Scalar type, const PoolShape& s, const void* x, void* y, cudaStream_t stream) {
  with_vector(type, s.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    avg_forward_kernel<T, w>
        <<<blocks_for(s.batch * s.out_h * s.out_w * s.channels / w), threads, 0, stream>>>(
            s, static_cast<const T*>(x), static_cast<T*>(y));
  });
  FORETRAIN_LAUNCHED();
}

void avg_pool_backward(Scalar type, const PoolShape& s, const void* dy, void* dx, cudaStream_t stream) {
  with_vector(type, s.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    avg_backward_kernel<T, w><<<blocks_for(s.batch * s.in_h * s.in_w * s.channels / w), threads, 0, stream>>>(
        s, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

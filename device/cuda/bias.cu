// The bias and the ReLU of conv2d and linear, where no library fuses them, and their gradients.
#include "device/cuda/check.hpp"
#include "device/cuda/column_reduce.cuh"

namespace foretrain::device::cuda {
namespace {

template <typename T, int width>
__global__ void __launch_bounds__(column_threads)
    bias_forward_kernel(int64_t rows, int64_t channels, const T* x, const float* bias, bool relu, T* y) {
  using V = Vector<T, width>;
  const int64_t vectors = channels / width;
  const int64_t vector = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (vector >= vectors) return;
  float shift[width];
#pragma unroll
  for (int i = 0; i < width; ++i) shift[i] = bias[vector * width + i];
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
#pragma unroll 4
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows; row += step) {
    float values[width];
    V::unpack(reinterpret_cast<const typename V::Raw*>(x)[row * vectors + vector], values);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      values[i] += shift[i];
      if (relu) values[i] = fmaxf(values[i], 0.0f);
    }
    V::store(y, row * vectors + vector, values);
  }
}

template <typename T, int width, bool two, bool relu>
__global__ void __launch_bounds__(column_threads)
    bias_backward_kernel(int64_t rows, int64_t channels, const T* dy, const T* dy2, const T* y, T* g_out,
                         GradientSink bias_gradient, Reduction reduction) {
  using V = Vector<T, width>;
  __shared__ float shared[column_shared];
  const int64_t vectors = channels / width;
  const int64_t vector = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  float first[width] = {}, second[width] = {};
  if (vector < vectors) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
         row += step * column_unroll) {
      typename V::Raw raw_g[column_unroll], raw_g2[column_unroll], raw_y[column_unroll];
#pragma unroll
      for (int u = 0; u < column_unroll; ++u) {
        if (row + u * step < rows) {
          const int64_t index = (row + u * step) * vectors + vector;
          raw_g[u] = V::load(dy, index);
          if (two) raw_g2[u] = V::load(dy2, index);
          if (relu) raw_y[u] = V::load(y, index);
        }
      }
#pragma unroll
      for (int u = 0; u < column_unroll; ++u) {
        if (row + u * step < rows) {
          float g[width], more[width];
          V::unpack(raw_g[u], g);
          if (two) {
            V::unpack(raw_g2[u], more);
#pragma unroll
            for (int i = 0; i < width; ++i) g[i] += more[i];
          }
          if (relu) {
            V::unpack(raw_y[u], more);
#pragma unroll
            for (int i = 0; i < width; ++i) g[i] = more[i] > 0 ? g[i] : 0;
          }
          if (g_out) {
            V::round(g);
            V::store(g_out, (row + u * step) * vectors + vector, g);
          }
#pragma unroll
          for (int i = 0; i < width; ++i) first[i] += g[i];
        }
      }
    }
  }
  if (!reduce_columns<width>(first, second, shared, reduction)) return;
  const int chunk = blockDim.x * width;
  for (int i = thread_index(); i < chunk; i += blockDim.x * blockDim.y) {
    const int64_t channel = static_cast<int64_t>(blockIdx.y) * chunk + i;
    if (channel < channels) store_gradient(bias_gradient, channel, shared[i]);
  }
}

}  // namespace

std::int64_t reduction_bytes(std::int64_t channels) {
  const std::int64_t blocks = static_cast<std::int64_t>(column_blocks) * 2 * widest_chunk;
  return static_cast<std::int64_t>(sizeof(float)) * std::max(blocks, 2 * (channels + widest_chunk));
}

void bias_forward(Scalar type, std::int64_t rows, std::int64_t channels, const void* x, const float* bias,
                  bool relu, void* y, cudaStream_t stream) {
  with_vector(type, channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    const ColumnGrid g = column_grid(rows, channels, w, false);
    bias_forward_kernel<T, w><<<g.grid, g.block, 0, stream>>>(rows, channels, static_cast<const T*>(x), bias,
                                                              relu, static_cast<T*>(y));
  });
  FORETRAIN_LAUNCHED();
}

void bias_backward(Scalar type, std::int64_t rows, std::int64_t channels, const void* dy, const void* dy2,
                   const void* y, void* g, const GradientSink& bias_gradient, const Reduction& reduction,
                   cudaStream_t stream) {
  with_vector(type, channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    const ColumnGrid grid = column_grid(rows, channels, w, true);
    const auto launch = [&](auto kernel) {
      kernel<<<grid.grid, grid.block, 0, stream>>>(rows, channels, static_cast<const T*>(dy),
                                                   static_cast<const T*>(dy2), static_cast<const T*>(y),
                                                   static_cast<T*>(g), bias_gradient, reduction);
    };
    if (dy2) {
      y ? launch(bias_backward_kernel<T, w, true, true>) : launch(bias_backward_kernel<T, w, true, false>);
    } else {
      y ? launch(bias_backward_kernel<T, w, false, true>) : launch(bias_backward_kernel<T, w, false, false>);
    }
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

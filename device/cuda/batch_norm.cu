// Batch normalization in training mode (Ioffe and Szegedy 2015), with the ReLU or the addition and ReLU that
// follow it. Bound by memory bandwidth: forward reads x twice, backward reads x and dy twice. The second pass
// goes over the rows backwards, so that it finds the end of the first one's reading in the cache.
#include "device/cuda/check.hpp"
#include "device/cuda/column_reduce.cuh"

namespace foretrain::device::cuda {
namespace {

template <typename T, int width, bool with_addend>
__global__ void __launch_bounds__(column_threads)
    statistics_kernel(BatchNormShape shape, const T* x, const T* addend, T* sum, BatchNormState state,
                      Reduction reduction) {
  using V = Vector<T, width>;
  __shared__ float shared[column_shared];
  const int64_t vectors = shape.channels / width;
  const int64_t vector = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  float first[width] = {}, second[width] = {}, origin[width] = {};
  if (vector < vectors) {
    // Sums of x - origin, the first row: no cancellation where the mean is large.
    V::unpack(V::load(x, vector), origin);
    if (with_addend) {
      float other[width];
      V::unpack(V::load(addend, vector), other);
#pragma unroll
      for (int i = 0; i < width; ++i) origin[i] += other[i];
    }
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < shape.rows;
         row += step * column_unroll) {
      typename V::Raw raw[column_unroll], other[column_unroll];
#pragma unroll
      for (int u = 0; u < column_unroll; ++u) {
        if (row + u * step < shape.rows) {
          raw[u] = V::load(x, (row + u * step) * vectors + vector);
          if (with_addend) other[u] = V::load(addend, (row + u * step) * vectors + vector);
        }
      }
#pragma unroll
      for (int u = 0; u < column_unroll; ++u) {
        if (row + u * step < shape.rows) {
          float values[width];
          V::unpack(raw[u], values);
          if (with_addend) {
            float more[width];
            V::unpack(other[u], more);
#pragma unroll
            for (int i = 0; i < width; ++i) values[i] += more[i];
            V::round(values);
            V::store(sum, (row + u * step) * vectors + vector, values);
          }
#pragma unroll
          for (int i = 0; i < width; ++i) {
            const float d = values[i] - origin[i];
            first[i] += d;
            second[i] += d * d;
          }
        }
      }
    }
  }
  if (!reduce_columns<width>(first, second, shared, reduction)) return;
  const int chunk = blockDim.x * width;
  for (int i = thread_index(); i < chunk; i += blockDim.x * blockDim.y) {
    const int64_t channel = static_cast<int64_t>(blockIdx.y) * chunk + i;
    if (channel >= shape.channels) continue;
    float start = to_float(x[channel]);
    if (with_addend) start += to_float(addend[channel]);
    const double rows = static_cast<double>(shape.rows);
    const double offset = shared[i] / rows;
    const double variance = fmax(shared[chunk + i] / rows - offset * offset, 0.0);
    const float mean = static_cast<float>(start + offset);
    const float inverse = static_cast<float>(1.0 / sqrt(variance + shape.epsilon));
    const float scale = state.gamma[channel] * inverse;
    state.mean[channel] = mean;
    state.inverse_deviation[channel] = inverse;
    state.scale[channel] = scale;
    state.shift[channel] = state.beta[channel] - mean * scale;
    const float unbiased = static_cast<float>(variance * (rows / fmax(rows - 1.0, 1.0)));
    state.running_mean[channel] += shape.momentum * (mean - state.running_mean[channel]);
    state.running_variance[channel] += shape.momentum * (unbiased - state.running_variance[channel]);
  }
}

template <typename T, int width, bool with_residual, bool relu>
__global__ void __launch_bounds__(column_threads)
    apply_kernel(BatchNormShape shape, const T* x, const T* residual, T* y, uint8_t* mask,
                 BatchNormState state) {
  using V = Vector<T, width>;
  const int64_t vectors = shape.channels / width;
  const int64_t vector = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (vector >= vectors) return;
  float scale[width], shift[width];
#pragma unroll
  for (int i = 0; i < width; ++i) {
    scale[i] = state.scale[vector * width + i];
    shift[i] = state.shift[vector * width + i];
  }
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  for (int64_t row = shape.rows - 1 - (static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y); row >= 0;
       row -= step * column_unroll) {
    typename V::Raw raw[column_unroll], other[column_unroll];
#pragma unroll
    for (int u = 0; u < column_unroll; ++u) {
      if (row - u * step >= 0) {
        raw[u] = V::load(x, (row - u * step) * vectors + vector);
        if (with_residual) other[u] = V::load(residual, (row - u * step) * vectors + vector);
      }
    }
#pragma unroll
    for (int u = 0; u < column_unroll; ++u) {
      if (row - u * step >= 0) {
        const int64_t index = (row - u * step) * vectors + vector;
        float values[width];
        V::unpack(raw[u], values);
        unsigned bits = 0;
        float more[width];
        if (with_residual) V::unpack(other[u], more);
#pragma unroll
        for (int i = 0; i < width; ++i) {
          values[i] = fmaf(values[i], scale[i], shift[i]);
          if (with_residual) values[i] += more[i];
          if (relu) {
            if (values[i] > 0) {
              bits |= 1u << i;
            } else {
              values[i] = 0;
            }
          }
        }
        V::store(y, index, values);
        if (relu && mask) mask[index] = static_cast<uint8_t>(bits);
      }
    }
  }
}

// g of one vector: dy (+ dy2) where the ReLU let the element pass.
template <int width, ReluMask relu>
__device__ void mask_gradient(float (&g)[width], const float (&x)[width], unsigned bits,
                              const float (&scale)[width], const float (&shift)[width]) {
#pragma unroll
  for (int i = 0; i < width; ++i) {
    if (relu == ReluMask::recompute && !(fmaf(x[i], scale[i], shift[i]) > 0)) g[i] = 0;
    if (relu == ReluMask::stored && !(bits >> i & 1)) g[i] = 0;
  }
}

template <typename T, int width, ReluMask relu, bool two>
__global__ void __launch_bounds__(column_threads, 2)
    backward_reduce_kernel(BatchNormShape shape, const T* dy, const T* dy2, const T* x, const uint8_t* mask,
                           T* g_out, BatchNormState state, GradientSink gamma_gradient,
                           GradientSink beta_gradient, Reduction reduction) {
  using V = Vector<T, width>;
  __shared__ float shared[column_shared];
  constexpr int unroll = two ? 3 : column_unroll;
  const int64_t vectors = shape.channels / width;
  const int64_t vector = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  float first[width] = {}, second[width] = {};
  if (vector < vectors) {
    float mean[width], scale[width], shift[width];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      mean[i] = state.mean[vector * width + i];
      scale[i] = relu == ReluMask::recompute ? state.scale[vector * width + i] : 0;
      shift[i] = relu == ReluMask::recompute ? state.shift[vector * width + i] : 0;
    }
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < shape.rows;
         row += step * unroll) {
      typename V::Raw raw_x[unroll], raw_g[unroll], raw_g2[unroll];
      unsigned bits[unroll] = {};
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        const int64_t index = (row + u * step) * vectors + vector;
        if (row + u * step < shape.rows) {
          raw_g[u] = V::load(dy, index);
          raw_x[u] = V::load(x, index);
          if (two) raw_g2[u] = V::load(dy2, index);
          if (relu == ReluMask::stored) bits[u] = __ldg(mask + index);
        }
      }
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        if (row + u * step < shape.rows) {
          float g[width], values[width];
          V::unpack(raw_g[u], g);
          V::unpack(raw_x[u], values);
          if (two) {
            float more[width];
            V::unpack(raw_g2[u], more);
#pragma unroll
            for (int i = 0; i < width; ++i) g[i] += more[i];
          }
          mask_gradient<width, relu>(g, values, bits[u], scale, shift);
          if (g_out) {
            V::round(g);
            V::store(g_out, (row + u * step) * vectors + vector, g);
          }
#pragma unroll
          for (int i = 0; i < width; ++i) {
            first[i] += g[i];
            second[i] += g[i] * (values[i] - mean[i]);
          }
        }
      }
    }
  }
  if (!reduce_columns<width>(first, second, shared, reduction)) return;
  const int chunk = blockDim.x * width;
  for (int i = thread_index(); i < chunk; i += blockDim.x * blockDim.y) {
    const int64_t channel = static_cast<int64_t>(blockIdx.y) * chunk + i;
    if (channel >= shape.channels) continue;
    const float inverse = state.inverse_deviation[channel];
    const float mean = state.mean[channel];
    const float gamma_sum = inverse * shared[chunk + i];
    store_gradient(beta_gradient, channel, shared[i]);
    store_gradient(gamma_gradient, channel, gamma_sum);
    // dx = gamma / deviation (g - mean(g) - xhat mean(g xhat)), written as a g + b x + c.
    const float rows = static_cast<float>(shape.rows);
    const float a = state.gamma[channel] * inverse;
    const float b = -a * inverse * gamma_sum / rows;
    state.a[channel] = a;
    state.b[channel] = b;
    state.c[channel] = -a * shared[i] / rows - b * mean;
  }
}

template <typename T, int width, ReluMask relu, bool with_existing>
__global__ void __launch_bounds__(column_threads)
    backward_data_kernel(BatchNormShape shape, const T* dy, const T* x, const T* existing, T* dx,
                         BatchNormState state) {
  using V = Vector<T, width>;
  const int64_t vectors = shape.channels / width;
  const int64_t vector = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (vector >= vectors) return;
  float a[width], b[width], c[width], scale[width], shift[width];
#pragma unroll
  for (int i = 0; i < width; ++i) {
    a[i] = state.a[vector * width + i];
    b[i] = state.b[vector * width + i];
    c[i] = state.c[vector * width + i];
    scale[i] = relu == ReluMask::recompute ? state.scale[vector * width + i] : 0;
    shift[i] = relu == ReluMask::recompute ? state.shift[vector * width + i] : 0;
  }
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  constexpr int unroll = 2;
  for (int64_t row = shape.rows - 1 - (static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y); row >= 0;
       row -= step * unroll) {
    typename V::Raw raw_g[unroll], raw_x[unroll], raw_e[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const int64_t index = (row - u * step) * vectors + vector;
      if (row - u * step >= 0) {
        raw_g[u] = V::load(dy, index);
        raw_x[u] = V::load(x, index);
        if (with_existing) raw_e[u] = V::load(existing, index);
      }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (row - u * step >= 0) {
        float g[width], values[width];
        V::unpack(raw_g[u], g);
        V::unpack(raw_x[u], values);
        mask_gradient<width, relu>(g, values, 0, scale, shift);
        float more[width];
        if (with_existing) V::unpack(raw_e[u], more);
#pragma unroll
        for (int i = 0; i < width; ++i) {
          g[i] = fmaf(a[i], g[i], fmaf(b[i], values[i], c[i]));
          if (with_existing) g[i] += more[i];
        }
        V::store(dx, (row - u * step) * vectors + vector, g);
      }
    }
  }
}

}  // namespace

int mask_group(Scalar type, std::int64_t channels) {
  int group = 1;
  with_vector(type, channels, [&](auto, auto width) { group = decltype(width)::value; });
  return group;
}

void batch_norm_statistics(Scalar type, const BatchNormShape& shape, const void* x, const void* addend,
                           void* sum, const BatchNormState& state, const Reduction& reduction,
                           cudaStream_t stream) {
  with_vector(type, shape.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    const ColumnGrid g = column_grid(shape.rows, shape.channels, w, true);
    const auto* values = static_cast<const T*>(x);
    const auto* more = static_cast<const T*>(addend);
    if (addend) {
      statistics_kernel<T, w, true>
          <<<g.grid, g.block, 0, stream>>>(shape, values, more, static_cast<T*>(sum), state, reduction);
    } else {
      statistics_kernel<T, w, false>
          <<<g.grid, g.block, 0, stream>>>(shape, values, more, nullptr, state, reduction);
    }
  });
  FORETRAIN_LAUNCHED();
}

void batch_norm_apply(Scalar type, const BatchNormShape& shape, const void* x, const void* residual,
                      bool relu, void* y, std::uint8_t* mask, const BatchNormState& state,
                      cudaStream_t stream) {
  with_vector(type, shape.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    const ColumnGrid g = column_grid(shape.rows, shape.channels, w, false);
    const auto launch = [&](auto kernel) {
      kernel<<<g.grid, g.block, 0, stream>>>(shape, static_cast<const T*>(x), static_cast<const T*>(residual),
                                             static_cast<T*>(y), mask, state);
    };
    if (residual) {
      relu ? launch(apply_kernel<T, w, true, true>) : launch(apply_kernel<T, w, true, false>);
    } else {
      relu ? launch(apply_kernel<T, w, false, true>) : launch(apply_kernel<T, w, false, false>);
    }
  });
  FORETRAIN_LAUNCHED();
}

void batch_norm_backward_reduce(Scalar type, const BatchNormShape& shape, const BatchNormGradient& gradient,
                                const BatchNormState& state, const Reduction& reduction,
                                cudaStream_t stream) {
  with_vector(type, shape.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    const ColumnGrid g = column_grid(shape.rows, shape.channels, w, true, column_blocks / 2);
    const auto launch = [&](auto kernel) {
      kernel<<<g.grid, g.block, 0, stream>>>(
          shape, static_cast<const T*>(gradient.dy), static_cast<const T*>(gradient.dy2),
          static_cast<const T*>(gradient.x), gradient.mask, static_cast<T*>(gradient.g), state,
          gradient.gamma_gradient, gradient.beta_gradient, reduction);
    };
    const bool two = gradient.dy2 != nullptr;
    switch (gradient.relu) {
      case ReluMask::none:
        two ? launch(backward_reduce_kernel<T, w, ReluMask::none, true>)
            : launch(backward_reduce_kernel<T, w, ReluMask::none, false>);
        break;
      case ReluMask::recompute:
        two ? launch(backward_reduce_kernel<T, w, ReluMask::recompute, true>)
            : launch(backward_reduce_kernel<T, w, ReluMask::recompute, false>);
        break;
      case ReluMask::stored:
        two ? launch(backward_reduce_kernel<T, w, ReluMask::stored, true>)
            : launch(backward_reduce_kernel<T, w, ReluMask::stored, false>);
        break;
    }
  });
  FORETRAIN_LAUNCHED();
}

void batch_norm_backward_data(Scalar type, const BatchNormShape& shape, const void* dy, const void* x,
                              ReluMask relu, const void* existing, void* dx, const BatchNormState& state,
                              cudaStream_t stream) {
  with_vector(type, shape.channels, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    const ColumnGrid g = column_grid(shape.rows, shape.channels, w, false);
    const auto launch = [&](auto kernel) {
      kernel<<<g.grid, g.block, 0, stream>>>(shape, static_cast<const T*>(dy), static_cast<const T*>(x),
                                             static_cast<const T*>(existing), static_cast<T*>(dx), state);
    };
    if (relu == ReluMask::recompute) {
      existing ? launch(backward_data_kernel<T, w, ReluMask::recompute, true>)
               : launch(backward_data_kernel<T, w, ReluMask::recompute, false>);
    } else {
      existing ? launch(backward_data_kernel<T, w, ReluMask::none, true>)
               : launch(backward_data_kernel<T, w, ReluMask::none, false>);
    }
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

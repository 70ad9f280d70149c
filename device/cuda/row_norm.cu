// Layer norm and RMS norm over the features of each row, and the gradients of both.
#include "device/cuda/check.hpp"
#include "device/cuda/column_reduce.cuh"
#include "device/cuda/items.cuh"
#include "device/cuda/sequence.hpp"

namespace foretrain::device::cuda {
namespace {

constexpr int row_threads = 128;

template <typename T, int width, bool rms>
__global__ void __launch_bounds__(row_threads) forward_kernel(RowNorm norm, const T* x, T* y) {
  using V = Vector<T, width>;
  const int64_t vectors = norm.channels / width, row = blockIdx.x;
  const T* in = x + row * norm.channels;
  const float share = 1.0f / static_cast<float>(norm.channels);
  float mean = 0, values[width];
  if (!rms) {
    for (int64_t v = threadIdx.x; v < vectors; v += row_threads) {
      V::unpack(V::load(in, v), values);
#pragma unroll
      for (int i = 0; i < width; ++i) mean += values[i];
    }
    mean = reduce_block<false>(mean) * share;
  }
  float square = 0;
  for (int64_t v = threadIdx.x; v < vectors; v += row_threads) {
    V::unpack(V::load(in, v), values);
#pragma unroll
    for (int i = 0; i < width; ++i) square += (values[i] - mean) * (values[i] - mean);
  }
  const float inverse = rsqrtf(reduce_block<false>(square) * share + norm.epsilon);
  if (threadIdx.x == 0) {
    if (rms) {
      norm.moments[row] = inverse;
    } else {
      norm.moments[2 * row] = mean;
      norm.moments[2 * row + 1] = inverse;
    }
  }
  for (int64_t v = threadIdx.x; v < vectors; v += row_threads) {
    V::unpack(V::load(in, v), values);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      values[i] = (values[i] - mean) * inverse * norm.weight[v * width + i];
      if (norm.bias) values[i] += norm.bias[v * width + i];
    }
    V::store(y + row * norm.channels, v, values);
  }
}

template <bool rms>
__device__ void load_moments(const RowNorm& norm, int64_t row, float& mean, float& inverse) {
  mean = rms ? 0 : norm.moments[2 * row];
  inverse = rms ? norm.moments[row] : norm.moments[2 * row + 1];
}

// dx = inverse (g w - mean(g w) - xhat mean(g w xhat)); of RMS norm without the first mean.
template <typename T, int width, bool rms>
__global__ void __launch_bounds__(row_threads)
    data_kernel(RowNorm norm, const T* x, const T* dy, const T* existing, T* dx) {
  using V = Vector<T, width>;
  using Raw = typename V::Raw;
  const int64_t vectors = norm.channels / width, row = blockIdx.x;
  const Raw* in = reinterpret_cast<const Raw*>(x + row * norm.channels);
  const Raw* gradient = reinterpret_cast<const Raw*>(dy + row * norm.channels);
  float mean, inverse;
  load_moments<rms>(norm, row, mean, inverse);
  float sum = 0, product = 0, values[width], g[width];
  for (int64_t v = threadIdx.x; v < vectors; v += row_threads) {
    V::unpack(in[v], values);
    V::unpack(gradient[v], g);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      g[i] *= norm.weight[v * width + i];
      sum += g[i];
      product += g[i] * (values[i] - mean) * inverse;
    }
  }
  const float share = 1.0f / static_cast<float>(norm.channels);
  sum = rms ? 0 : reduce_block<false>(sum) * share;
  product = reduce_block<false>(product) * share;
  for (int64_t v = threadIdx.x; v < vectors; v += row_threads) {
    V::unpack(in[v], values);
    V::unpack(gradient[v], g);
    float more[width] = {};
    if (existing) V::unpack(reinterpret_cast<const Raw*>(existing + row * norm.channels)[v], more);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float normal = (values[i] - mean) * inverse;
      values[i] = inverse * (g[i] * norm.weight[v * width + i] - sum - normal * product) + more[i];
    }
    V::store(dx + row * norm.channels, v, values);
  }
}

template <typename T, int width, bool rms>
__global__ void __launch_bounds__(column_threads)
    weights_kernel(RowNorm norm, const T* x, const T* dy, GradientSink weight, GradientSink bias,
                   Reduction reduction) {
  using V = Vector<T, width>;
  __shared__ float shared[column_shared];
  const int64_t vectors = norm.channels / width;
  const int64_t vector = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  float of_weight[width] = {}, of_bias[width] = {};
  if (vector < vectors) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
#pragma unroll 4
    for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < norm.rows;
         row += step) {
      float values[width], g[width], mean, inverse;
      V::unpack(V::load(x, row * vectors + vector), values);
      V::unpack(V::load(dy, row * vectors + vector), g);
      load_moments<rms>(norm, row, mean, inverse);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        of_weight[i] += g[i] * (values[i] - mean) * inverse;
        of_bias[i] += g[i];
      }
    }
  }
  if (!reduce_columns<width>(of_weight, of_bias, shared, reduction)) return;
  const int chunk = blockDim.x * width;
  for (int i = thread_index(); i < chunk; i += blockDim.x * blockDim.y) {
    const int64_t channel = static_cast<int64_t>(blockIdx.y) * chunk + i;
    if (channel >= norm.channels) continue;
    store_gradient(weight, channel, shared[i]);
    if (bias.data) store_gradient(bias, channel, shared[chunk + i]);
  }
}

// Calls f(T{}, width, is_rms).
template <typename F>
void with_norm(Scalar type, const RowNorm& norm, F&& f) {
  with_vector(type, norm.channels, [&](auto element, auto width) {
    norm.rms ? f(element, width, std::true_type{}) : f(element, width, std::false_type{});
  });
}

}  // namespace

void row_norm_forward(Scalar type, const RowNorm& norm, const void* x, void* y, cudaStream_t stream) {
  with_norm(type, norm, [&](auto element, auto width, auto rms) {
    using T = decltype(element);
    forward_kernel<T, decltype(width)::value, decltype(rms)::value>
        <<<static_cast<unsigned>(norm.rows), row_threads, 0, stream>>>(norm, static_cast<const T*>(x),
                                                                       static_cast<T*>(y));
  });
  FORETRAIN_LAUNCHED();
}

void row_norm_backward_weights(Scalar type, const RowNorm& norm, const void* x, const void* dy,
                               const GradientSink& weight, const GradientSink& bias,
                               const Reduction& reduction, cudaStream_t stream) {
  with_norm(type, norm, [&](auto element, auto width, auto rms) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    const ColumnGrid grid = column_grid(norm.rows, norm.channels, w, true);
    weights_kernel<T, w, decltype(rms)::value><<<grid.grid, grid.block, 0, stream>>>(
        norm, static_cast<const T*>(x), static_cast<const T*>(dy), weight, bias, reduction);
  });
  FORETRAIN_LAUNCHED();
}

void row_norm_backward_data(Scalar type, const RowNorm& norm, const void* x, const void* dy,
                            const void* existing, void* dx, cudaStream_t stream) {
  with_norm(type, norm, [&](auto element, auto width, auto rms) {
    using T = decltype(element);
    data_kernel<T, decltype(width)::value, decltype(rms)::value>
        <<<static_cast<unsigned>(norm.rows), row_threads, 0, stream>>>(
            norm, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<const T*>(existing),
            static_cast<T*>(dx));
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

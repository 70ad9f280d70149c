// Elementwise kernels of sequence models: activations, dropout, products, parts of rows.
#include "device/cuda/sequence.hpp"

#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/random.cuh"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr float root_two_over_pi = 0.7978845608028654f, cubic = 0.044715f;

template <Activation activation>
__device__ float activated(float x) {
  if (activation == Activation::silu) return x / (1 + expf(-x));
  if (activation == Activation::gelu) return 0.5f * x * (1 + erff(x * 0.7071067811865476f));
  return 0.5f * x * (1 + tanhf(root_two_over_pi * (x + cubic * x * x * x)));
}

template <Activation activation>
__device__ float slope(float x) {
  if (activation == Activation::silu) {
    const float s = 1 / (1 + expf(-x));
    return s * (1 + x * (1 - s));
  }
  if (activation == Activation::gelu) {
    return 0.5f * (1 + erff(x * 0.7071067811865476f)) + x * 0.3989422804014327f * expf(-0.5f * x * x);
  }
  const float t = tanhf(root_two_over_pi * (x + cubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * root_two_over_pi * (1 + 3 * cubic * x * x);
}

// Calls f on each vector's values; f(values, index of the first one).
template <typename T, int width, typename F>
__device__ void each_vector(int64_t vectors, const T* x, T* y, F&& f) {
  using V = Vector<T, width>;
  for (int64_t index = first_item(); index < vectors; index += item_step()) {
    float values[width];
    V::unpack(reinterpret_cast<const typename V::Raw*>(x)[index], values);
    f(values, index);
    V::store(y, index, values);
  }
}

template <typename T, int width, Activation activation>
__global__ void activation_kernel(int64_t vectors, const T* x, T* y) {
  each_vector<T, width>(vectors, x, y, [](float(&values)[width], int64_t) {
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] = activated<activation>(values[i]);
  });
}

template <typename T, int width, Activation activation>
__global__ void activation_backward_kernel(int64_t vectors, const T* x, const T* dy, T* dx) {
  using V = Vector<T, width>;
  each_vector<T, width>(vectors, dy, dx, [x](float(&values)[width], int64_t index) {
    float at[width];
    V::unpack(reinterpret_cast<const typename V::Raw*>(x)[index], at);
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] *= slope<activation>(at[i]);
  });
}

__global__ void next_draw_kernel(uint64_t* draw) {
  ++*draw;
}

template <typename T, int width>
__global__ void dropout_kernel(int64_t vectors, uint64_t layer_seed, const uint64_t* draw, unsigned threshold,
                               float scale, const T* x, T* y) {
  const uint64_t seed = layer_seed + *draw;
  each_vector<T, width>(vectors, x, y, [=](float(&values)[width], int64_t index) {
#pragma unroll
    for (int i = 0; i < width; ++i)
      values[i] = is_kept(seed, index * width + i, threshold) ? values[i] * scale : 0;
  });
}

template <typename T, int width>
__global__ void multiply_kernel(int64_t vectors, const T* a, const T* b, T* product) {
  using V = Vector<T, width>;
  each_vector<T, width>(vectors, a, product, [b](float(&values)[width], int64_t index) {
    float other[width];
    V::unpack(reinterpret_cast<const typename V::Raw*>(b)[index], other);
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] *= other[i];
  });
}

template <typename T, int width>
__global__ void multiply_backward_kernel(int64_t vectors, const T* dy, const T* a, const T* b, T* da, T* db) {
  using V = Vector<T, width>;
  using Raw = typename V::Raw;
  for (int64_t index = first_item(); index < vectors; index += item_step()) {
    float g[width], of_a[width], of_b[width];
    V::unpack(reinterpret_cast<const Raw*>(dy)[index], g);
    V::unpack(reinterpret_cast<const Raw*>(a)[index], of_a);
    V::unpack(reinterpret_cast<const Raw*>(b)[index], of_b);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      of_a[i] *= g[i];
      of_b[i] *= g[i];
    }
    if (da) V::store(da, index, of_b);
    if (db) V::store(db, index, of_a);
  }
}

template <typename T, int width>
__global__ void copy_columns_kernel(int64_t rows, int64_t vectors, const T* from, int64_t from_vectors,
                                    int64_t from_offset, T* to, int64_t to_vectors, int64_t to_offset) {
  using Raw = typename Vector<T, width>::Raw;
  for (int64_t index = first_item(); index < rows * vectors; index += item_step()) {
    const int64_t row = index / vectors, column = index % vectors;
    reinterpret_cast<Raw*>(to)[row * to_vectors + to_offset + column] =
        reinterpret_cast<const Raw*>(from)[row * from_vectors + from_offset + column];
  }
}

template <typename F>
void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::gelu:
      return f(std::integral_constant<Activation, Activation::gelu>{});
    case Activation::gelu_tanh:
      return f(std::integral_constant<Activation, Activation::gelu_tanh>{});
    case Activation::silu:
      return f(std::integral_constant<Activation, Activation::silu>{});
  }
}

}  // namespace

void activation_forward(Scalar type, Activation activation, std::int64_t count, const void* x, void* y,
                        cudaStream_t stream) {
  with_activation(activation, [&](auto which) {
    with_vector(type, count, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int w = decltype(width)::value;
      activation_kernel<T, w, decltype(which)::value><<<blocks_for(count / w), item_threads, 0, stream>>>(
          count / w, static_cast<const T*>(x), static_cast<T*>(y));
    });
  });
  FORETRAIN_LAUNCHED();
}

void activation_backward(Scalar type, Activation activation, std::int64_t count, const void* x,
                         const void* dy, void* dx, cudaStream_t stream) {
  with_activation(activation, [&](auto which) {
    with_vector(type, count, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int w = decltype(width)::value;
      activation_backward_kernel<T, w, decltype(which)::value>
          <<<blocks_for(count / w), item_threads, 0, stream>>>(
              count / w, static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
  FORETRAIN_LAUNCHED();
}

void dropout(Scalar type, std::int64_t count, const Dropout& dropout, const void* x, void* y,
             cudaStream_t stream) {
  with_vector(type, count, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    dropout_kernel<T, w><<<blocks_for(count / w), item_threads, 0, stream>>>(
        count / w, dropout.seed, dropout.draw, dropout_threshold(dropout.probability),
        1 / (1 - dropout.probability), static_cast<const T*>(x), static_cast<T*>(y));
  });
  FORETRAIN_LAUNCHED();
}

void next_draw(std::uint64_t* draw, cudaStream_t stream) {
  next_draw_kernel<<<1, 1, 0, stream>>>(draw);
  FORETRAIN_LAUNCHED();
}

void multiply(Scalar type, std::int64_t count, const void* a, const void* b, void* product,
              cudaStream_t stream) {
  with_vector(type, count, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    multiply_kernel<T, w><<<blocks_for(count / w), item_threads, 0, stream>>>(
        count / w, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(product));
  });
  FORETRAIN_LAUNCHED();
}

void multiply_backward(Scalar type, std::int64_t count, const void* dy, const void* a, const void* b,
                       void* da, void* db, cudaStream_t stream) {
  with_vector(type, count, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    multiply_backward_kernel<T, w><<<blocks_for(count / w), item_threads, 0, stream>>>(
        count / w, static_cast<const T*>(dy), static_cast<const T*>(a), static_cast<const T*>(b),
        static_cast<T*>(da), static_cast<T*>(db));
  });
  FORETRAIN_LAUNCHED();
}

void copy_columns(Scalar type, std::int64_t rows, std::int64_t columns, const void* from,
                  std::int64_t from_channels, std::int64_t from_offset, void* to, std::int64_t to_channels,
                  std::int64_t to_offset, cudaStream_t stream) {
  // The widest vector that divides all of them.
  const std::int64_t divisor = columns | from_channels | from_offset | to_channels | to_offset;
  with_vector(type, divisor, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    copy_columns_kernel<T, w><<<blocks_for(rows * columns / w), item_threads, 0, stream>>>(
        rows, columns / w, static_cast<const T*>(from), from_channels / w, from_offset / w,
        static_cast<T*>(to), to_channels / w, to_offset / w);
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

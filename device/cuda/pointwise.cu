// Elementwise kernels: ReLU, addition, conversions of layout and type, random fill, checksum.
#include <algorithm>

#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/random.cuh"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int threads = item_threads;

enum class Operation { relu, relu_backward, add };

template <typename T, int width, Operation operation>
__global__ void pointwise_kernel(int64_t vectors, const T* a, const T* b, T* out) {
  using V = Vector<T, width>;
#pragma unroll 4
  for (int64_t index = first_item(); index < vectors; index += item_step()) {
    float x[width], y[width] = {};
    V::unpack(reinterpret_cast<const typename V::Raw*>(a)[index], x);
    if (operation != Operation::relu) V::unpack(reinterpret_cast<const typename V::Raw*>(b)[index], y);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if (operation == Operation::relu) x[i] = fmaxf(x[i], 0.0f);
      if (operation == Operation::relu_backward) x[i] = y[i] > 0 ? x[i] : 0;
      if (operation == Operation::add) x[i] += y[i];
    }
    V::store(out, index, x);
  }
}

template <Operation operation>
void pointwise(Scalar type, int64_t count, const void* a, const void* b, void* out, cudaStream_t stream) {
  with_vector(type, count, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int w = decltype(width)::value;
    pointwise_kernel<T, w, operation><<<blocks_for(count / w), threads, 0, stream>>>(
        count / w, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out));
  });
  FORETRAIN_LAUNCHED();
}

__global__ void convert_kernel(int64_t rows, int64_t channels, const void* from, Scalar from_type,
                               int64_t from_channels, void* to, Scalar to_type, int64_t to_channels,
                               bool adds) {
  for (int64_t index = first_item(); index < rows * to_channels; index += item_step()) {
    const int64_t row = index / to_channels, channel = index % to_channels;
    const float value = channel < channels ? load_scalar(from, row * from_channels + channel, from_type) : 0;
    store_gradient({to, to_type, adds}, index, value);
  }
}

// Eight elements a thread where layout and count allow.
template <typename From, typename To>
__global__ void convert_vectors_kernel(int64_t vectors, const From* from, To* to) {
  for (int64_t index = first_item(); index < vectors; index += item_step()) {
    float low[4], high[4];
    Vector<From, 4>::unpack(Vector<From, 4>::load(from, 2 * index), low);
    Vector<From, 4>::unpack(Vector<From, 4>::load(from, 2 * index + 1), high);
    Vector<To, 4>::store(to, 2 * index, low);
    Vector<To, 4>::store(to, 2 * index + 1, high);
  }
}

__global__ void images_kernel(int64_t batch, int64_t channels, int64_t pixels, const float* images, void* to,
                              Scalar type, int64_t to_channels) {
  for (int64_t index = first_item(); index < batch * pixels * to_channels; index += item_step()) {
    const int64_t channel = index % to_channels;
    const int64_t pixel = index / to_channels % pixels;
    const int64_t sample = index / to_channels / pixels;
    const float value = channel < channels ? images[(sample * channels + channel) * pixels + pixel] : 0;
    store_scalar(to, index, type, value);
  }
}

// Of mean 0 and deviation 1, as device/initial_weights.hpp has it for the host.
__device__ float normal(uint64_t seed, int64_t index) {
  const uint64_t bits = mix(mix(seed) + static_cast<uint64_t>(index));
  const float u = (static_cast<float>(bits >> 40) + 1.0f) * 0x1p-24f;
  const float v = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
  return sqrtf(-2 * logf(u)) * cospif(2 * v);
}

__global__ void normal_kernel(int64_t count, void* to, Scalar type, float deviation, uint64_t seed) {
  for (int64_t index = first_item(); index < count; index += item_step())
    store_scalar(to, index, type, deviation * normal(seed, index));
}

// Numbered as the model has them, (out, in, pixel); they lie as (out, pixel, in).
__global__ void weights_kernel(int64_t count, float* to, int64_t in, int64_t pixels, float deviation,
                               uint64_t seed) {
  for (int64_t index = first_item(); index < count; index += item_step()) {
    const int64_t out = index / (pixels * in), pixel = index / in % pixels, channel = index % in;
    to[index] = deviation * normal(seed, (out * in + channel) * pixels + pixel);
  }
}

__global__ void labels_kernel(int64_t count, int32_t* to, int32_t classes, uint64_t seed) {
  for (int64_t index = first_item(); index < count; index += item_step()) {
    to[index] =
        static_cast<int32_t>(mix(mix(seed) ^ static_cast<uint64_t>(index)) % static_cast<uint64_t>(classes));
  }
}

__global__ void checksum_kernel(int64_t count, const float* from, unsigned long long* sum) {
  unsigned long long local = 0;
  for (int64_t index = first_item(); index < count; index += item_step()) {
    local += mix(static_cast<uint64_t>(index) << 32 | __float_as_uint(from[index]));
  }
  for (int lane = 16; lane > 0; lane /= 2) local += __shfl_xor_sync(0xffffffffu, local, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, local);  // integers: the order does not matter
}

}  // namespace

void relu_forward(Scalar type, std::int64_t count, const void* x, void* y, cudaStream_t stream) {
  pointwise<Operation::relu>(type, count, x, nullptr, y, stream);
}
void relu_backward(Scalar type, std::int64_t count, const void* dy, const void* y, void* dx,
                   cudaStream_t stream) {
  pointwise<Operation::relu_backward>(type, count, dy, y, dx, stream);
}
void add(Scalar type, std::int64_t count, const void* a, const void* b, void* sum, cudaStream_t stream) {
  pointwise<Operation::add>(type, count, a, b, sum, stream);
}

void convert_rows(std::int64_t rows, std::int64_t channels, const void* from, Scalar from_type,
                  std::int64_t from_channels, void* to, Scalar to_type, std::int64_t to_channels,
                  cudaStream_t stream, bool adds) {
  const int64_t count = rows * channels;
  if (!adds && from_channels == channels && to_channels == channels && count % 8 == 0) {
    const auto launch = [&](auto* typed_from, auto* typed_to) {
      convert_vectors_kernel<<<blocks_for(count / 8), threads, 0, stream>>>(count / 8, typed_from, typed_to);
    };
    if (from_type == Scalar::bf16 && to_type == Scalar::f32) {
      launch(static_cast<const __nv_bfloat16*>(from), static_cast<float*>(to));
      return FORETRAIN_LAUNCHED();
    }
    if (from_type == Scalar::f32 && to_type == Scalar::bf16) {
      launch(static_cast<const float*>(from), static_cast<__nv_bfloat16*>(to));
      return FORETRAIN_LAUNCHED();
    }
  }
  convert_kernel<<<blocks_for(rows * to_channels), threads, 0, stream>>>(
      rows, channels, from, from_type, from_channels, to, to_type, to_channels, adds);
  FORETRAIN_LAUNCHED();
}

void images_to_channels_last(std::int64_t batch, std::int64_t channels, std::int64_t pixels,
                             const float* images, void* to, Scalar type, std::int64_t to_channels,
                             cudaStream_t stream) {
  images_kernel<<<blocks_for(batch * pixels * to_channels), threads, 0, stream>>>(
      batch, channels, pixels, images, to, type, to_channels);
  FORETRAIN_LAUNCHED();
}

void fill_normal(std::int64_t count, void* to, Scalar type, float deviation, std::uint64_t seed,
                 cudaStream_t stream) {
  normal_kernel<<<blocks_for(count), threads, 0, stream>>>(count, to, type, deviation, seed);
  FORETRAIN_LAUNCHED();
}

void fill_weights(std::int64_t count, float* to, std::int64_t in, std::int64_t pixels, float deviation,
                  std::uint64_t seed, cudaStream_t stream) {
  weights_kernel<<<blocks_for(count), threads, 0, stream>>>(count, to, in, pixels, deviation, seed);
  FORETRAIN_LAUNCHED();
}

void fill_labels(std::int64_t count, std::int32_t* to, std::int32_t classes, std::uint64_t seed,
                 cudaStream_t stream) {
  labels_kernel<<<blocks_for(count), threads, 0, stream>>>(count, to, classes, seed);
  FORETRAIN_LAUNCHED();
}

void checksum(std::int64_t count, const float* from, unsigned long long* sum, cudaStream_t stream) {
  checksum_kernel<<<blocks_for(count), threads, 0, stream>>>(count, from, sum);
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

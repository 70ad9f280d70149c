// Vectors of neighbouring channels: loaded and stored with one access, computed in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "device/cuda/kernels.hpp"

namespace foretrain::device::cuda {

template <int bytes>
struct Word;
template <>
struct Word<16> {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<1> {
  using type = unsigned char;
};

__device__ inline float to_float(float v) {
  return v;
}
__device__ inline float to_float(__nv_bfloat16 v) {
  return __bfloat162float(v);
}
__device__ inline float to_float(__half v) {
  return __half2float(v);
}
__device__ inline void from_float(float v, float& to) {
  to = v;
}
__device__ inline void from_float(float v, __nv_bfloat16& to) {
  to = __float2bfloat16(v);
}
__device__ inline void from_float(float v, __half& to) {
  to = __float2half(v);
}

template <typename T, int width>
struct Vector {
  using Raw = typename Word<sizeof(T) * width>::type;
  union Bits {
    Raw raw;
    T items[width];
    __device__ Bits() {}
  };

  __device__ static Raw load(const T* from, int64_t vector) {
    return __ldg(reinterpret_cast<const Raw*>(from) + vector);
  }
  __device__ static void unpack(Raw raw, float (&values)[width]) {
    Bits bits;
    bits.raw = raw;
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] = to_float(bits.items[i]);
  }
  __device__ static void store(T* to, int64_t vector, const float (&values)[width]) {
    Bits bits;
#pragma unroll
    for (int i = 0; i < width; ++i) from_float(values[i], bits.items[i]);
    reinterpret_cast<Raw*>(to)[vector] = bits.raw;
  }
  // As stored: what a later kernel will read.
  __device__ static void round(float (&values)[width]) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      T rounded;
      from_float(values[i], rounded);
      values[i] = to_float(rounded);
    }
  }
};

// Calls f(T{}) with the element type of a tensor of activations: fp32 or bf16.
template <typename F>
void with_type(Scalar type, F&& f) {
  if (type == Scalar::f32) {
    f(float{});
  } else {
    f(__nv_bfloat16{});
  }
}

template <int n>
struct Width {
  static constexpr int value = n;
};

// Calls f(T{}, width) with the widest vector of 16 bytes that divides `channels`, else of one element.
template <typename F>
void with_vector(Scalar type, int64_t channels, F&& f) {
  if (type == Scalar::f32) {
    if (channels % 4 == 0) {
      f(float{}, Width<4>{});
    } else {
      f(float{}, Width<1>{});
    }
  } else {
    if (channels % 8 == 0) {
      f(__nv_bfloat16{}, Width<8>{});
    } else {
      f(__nv_bfloat16{}, Width<1>{});
    }
  }
}

// One element of a tensor whose type is known at run time: gradients of parameters.
__device__ inline void store_scalar(void* to, int64_t index, Scalar type, float value) {
  if (type == Scalar::f32) {
    static_cast<float*>(to)[index] = value;
  } else if (type == Scalar::bf16) {
    static_cast<__nv_bfloat16*>(to)[index] = __float2bfloat16(value);
  } else {
    static_cast<__half*>(to)[index] = __float2half(value);
  }
}
__device__ inline float load_scalar(const void* from, int64_t index, Scalar type);
__device__ inline void store_gradient(const GradientSink& to, int64_t index, float value) {
  if (to.adds) value += load_scalar(to.data, index, to.type);
  store_scalar(to.data, index, to.type, value);
}
__device__ inline float load_scalar(const void* from, int64_t index, Scalar type) {
  if (type == Scalar::f32) return static_cast<const float*>(from)[index];
  if (type == Scalar::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[index]);
  return __half2float(static_cast<const __half*>(from)[index]);
}

}  // namespace foretrain::device::cuda

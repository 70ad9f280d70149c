// Updates of all parameters in one pass over flat buffers, in fp32, with the copy of the weights in the
// compute precision written on the way.
#include <algorithm>

#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int threads = 256;
constexpr int width = 4;

unsigned update_blocks(int64_t count) {
  return static_cast<unsigned>(std::clamp<int64_t>(count / width / threads, 1, 132 * 8));
}

// What gradients are multiplied by.
__device__ float scale_of(float gradient_scale, const NormClip& clip) {
  if (!clip.squares) return gradient_scale;
  const float norm = gradient_scale * sqrtf(*clip.squares);
  return norm > clip.most ? gradient_scale * clip.most / norm : gradient_scale;
}

template <typename G>
__global__ void squares_kernel(int64_t vectors, const G* from, float* partial) {
  using V = Vector<G, width>;
  float sum = 0;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; index < vectors;
       index += static_cast<int64_t>(gridDim.x) * threads) {
    float values[width];
    V::unpack(reinterpret_cast<const typename V::Raw*>(from)[index], values);
#pragma unroll
    for (int i = 0; i < width; ++i) sum += values[i] * values[i];
  }
  sum = reduce_block<false>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void squares_end_kernel(const float* partial, float* sum) {
  const float all = reduce_block<false>(partial[threadIdx.x]);
  if (threadIdx.x == 0) *sum = all;
}

template <typename G, bool with_momentum, bool with_copy>
__global__ void sgd_kernel(int64_t vectors, float* weights, const G* gradients, float* velocity,
                           __nv_bfloat16* copy, SgdArguments p) {
  using F = Vector<float, width>;
  using Gradient = Vector<G, width>;
  using Copy = Vector<__nv_bfloat16, width>;
  const UpdateScalars scalars = p.on_device ? *p.on_device : p.scalars;
  const float gradient_scale = scale_of(scalars.gradient_scale, p.clip);
#pragma unroll 2
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; index < vectors;
       index += static_cast<int64_t>(gridDim.x) * threads) {
    float w[width], g[width], v[width] = {};
    F::unpack(reinterpret_cast<const F::Raw*>(weights)[index], w);
    Gradient::unpack(reinterpret_cast<const typename Gradient::Raw*>(gradients)[index], g);
    if (with_momentum) F::unpack(reinterpret_cast<const F::Raw*>(velocity)[index], v);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      g[i] = fmaf(p.weight_decay, w[i], g[i] * gradient_scale);
      if (with_momentum) {
        v[i] = fmaf(p.momentum, v[i], g[i]);
        g[i] = p.nesterov ? fmaf(p.momentum, v[i], g[i]) : v[i];
      }
      w[i] = fmaf(-scalars.learning_rate, g[i], w[i]);
    }
    F::store(weights, index, w);
    if (with_momentum) F::store(velocity, index, v);
    if (with_copy) Copy::store(copy, index, w);
  }
}

template <typename G, bool with_copy>
__global__ void adam_kernel(int64_t vectors, float* weights, const G* gradients, float* first, float* second,
                            __nv_bfloat16* copy, AdamArguments p) {
  using F = Vector<float, width>;
  using Gradient = Vector<G, width>;
  using Copy = Vector<__nv_bfloat16, width>;
  const UpdateScalars scalars = p.on_device ? *p.on_device : p.scalars;
  const float gradient_scale = scale_of(scalars.gradient_scale, p.clip);
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; index < vectors;
       index += static_cast<int64_t>(gridDim.x) * threads) {
    float w[width], g[width], m[width], v[width];
    F::unpack(reinterpret_cast<const F::Raw*>(weights)[index], w);
    Gradient::unpack(reinterpret_cast<const typename Gradient::Raw*>(gradients)[index], g);
    F::unpack(reinterpret_cast<const F::Raw*>(first)[index], m);
    F::unpack(reinterpret_cast<const F::Raw*>(second)[index], v);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      g[i] *= gradient_scale;
      if (p.decoupled) {
        w[i] *= 1 - scalars.learning_rate * p.weight_decay;
      } else {
        g[i] += p.weight_decay * w[i];
      }
      m[i] = p.beta1 * m[i] + (1 - p.beta1) * g[i];
      v[i] = p.beta2 * v[i] + (1 - p.beta2) * g[i] * g[i];
      w[i] -= scalars.learning_rate * (m[i] / scalars.correction1) /
              (sqrtf(v[i] / scalars.correction2) + p.epsilon);
    }
    F::store(weights, index, w);
    F::store(first, index, m);
    F::store(second, index, v);
    if (with_copy) Copy::store(copy, index, w);
  }
}

__global__ void put_kernel(UpdateScalars values, UpdateScalars* to) {
  *to = values;
}

template <typename F>
void with_gradient(Scalar type, F&& f) {
  if (type == Scalar::f32) {
    f(float{});
  } else if (type == Scalar::bf16) {
    f(__nv_bfloat16{});
  } else {
    f(__half{});
  }
}

}  // namespace

void put_scalars(const UpdateScalars& values, UpdateScalars* to, cudaStream_t stream) {
  put_kernel<<<1, 1, 0, stream>>>(values, to);
  FORETRAIN_LAUNCHED();
}

void sum_of_squares(std::int64_t count, const void* from, Scalar type, float* partial, float* sum,
                    cudaStream_t stream) {
  with_gradient(type, [&](auto element) {
    using G = decltype(element);
    squares_kernel<G>
        <<<squares_blocks, threads, 0, stream>>>(count / width, static_cast<const G*>(from), partial);
  });
  squares_end_kernel<<<1, squares_blocks, 0, stream>>>(partial, sum);
  FORETRAIN_LAUNCHED();
}

void sgd_update(std::int64_t count, float* weights, const void* gradients, Scalar gradient_type,
                float* velocity, void* copy, const SgdArguments& arguments, cudaStream_t stream) {
  with_gradient(gradient_type, [&](auto element) {
    using G = decltype(element);
    const auto launch = [&](auto kernel) {
      kernel<<<update_blocks(count), threads, 0, stream>>>(count / width, weights,
                                                           static_cast<const G*>(gradients), velocity,
                                                           static_cast<__nv_bfloat16*>(copy), arguments);
    };
    if (velocity) {
      copy ? launch(sgd_kernel<G, true, true>) : launch(sgd_kernel<G, true, false>);
    } else {
      copy ? launch(sgd_kernel<G, false, true>) : launch(sgd_kernel<G, false, false>);
    }
  });
  FORETRAIN_LAUNCHED();
}

void adam_update(std::int64_t count, float* weights, const void* gradients, Scalar gradient_type,
                 float* first, float* second, void* copy, const AdamArguments& arguments,
                 cudaStream_t stream) {
  with_gradient(gradient_type, [&](auto element) {
    using G = decltype(element);
    const auto launch = [&](auto kernel) {
      kernel<<<update_blocks(count), threads, 0, stream>>>(count / width, weights,
                                                           static_cast<const G*>(gradients), first, second,
                                                           static_cast<__nv_bfloat16*>(copy), arguments);
    };
    copy ? launch(adam_kernel<G, true>) : launch(adam_kernel<G, false>);
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

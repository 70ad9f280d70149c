// What stands between the products of attention: heads laid out for them, rotary positions, the softmax.
#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/random.cuh"
#include "device/cuda/sequence.hpp"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int softmax_threads = 128;

// Feature i < half and its partner i + half turn by position / base^(i / half) (Su et al. 2021).
__device__ void turn(const HeadLayout& layout, int64_t position, int i, float& a, float& b, bool back) {
  const int half = layout.features / 2;
  const float exponent = static_cast<float>(i) / static_cast<float>(half);
  const float angle = static_cast<float>(position) * expf(-logf(layout.rotary_base) * exponent);
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  if (back) sine = -sine;
  const float turned = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = turned;
}

// An item is a pair of features: neighbours i and i + half where turned, else 2 i and 2 i + 1.
struct Pair {
  int64_t sample, position;
  int head, first, second, index;
};
__device__ Pair pair_at(const HeadLayout& layout, int heads, int64_t item) {
  const int pairs = (layout.features + 1) / 2;
  Pair p;
  p.index = static_cast<int>(item % pairs);
  p.head = static_cast<int>(item / pairs % heads);
  p.position = item / pairs / heads % layout.positions;
  p.sample = item / pairs / heads / layout.positions;
  const bool turned = layout.rotary_base > 0;
  p.first = turned ? p.index : 2 * p.index;
  p.second = turned ? p.index + layout.features / 2 : 2 * p.index + 1;
  return p;
}

template <typename T>
__global__ void split_kernel(HeadLayout layout, const T* packed, T* heads) {
  const int64_t items = layout.batch * layout.positions * layout.heads * ((layout.features + 1) / 2);
  for (int64_t item = first_item(); item < items; item += item_step()) {
    const Pair p = pair_at(layout, layout.heads, item);
    const T* from = packed + (p.sample * layout.positions + p.position) * layout.channels + layout.offset +
                    static_cast<int64_t>(p.head / layout.repeated) * layout.features;
    T* to = heads + ((p.sample * layout.heads + p.head) * layout.positions + p.position) * layout.features;
    const bool paired = p.second < layout.features;
    float a = to_float(from[p.first]), b = paired ? to_float(from[p.second]) : 0;
    if (layout.rotary_base > 0) turn(layout, p.position, p.index, a, b, false);
    from_float(a, to[p.first]);
    if (paired) from_float(b, to[p.second]);
  }
}

template <typename T>
__global__ void join_kernel(HeadLayout layout, const T* heads, T* packed) {
  const int packed_heads = layout.heads / layout.repeated;
  const int64_t items = layout.batch * layout.positions * packed_heads * ((layout.features + 1) / 2);
  for (int64_t item = first_item(); item < items; item += item_step()) {
    const Pair p = pair_at(layout, packed_heads, item);
    const bool paired = p.second < layout.features;
    float a = 0, b = 0;
    for (int k = 0; k < layout.repeated; ++k) {
      const T* from =
          heads + ((p.sample * layout.heads + p.head * layout.repeated + k) * layout.positions + p.position) *
                      layout.features;
      a += to_float(from[p.first]);
      if (paired) b += to_float(from[p.second]);
    }
    if (layout.rotary_base > 0) turn(layout, p.position, p.index, a, b, true);
    T* to = packed + (p.sample * layout.positions + p.position) * layout.channels + layout.offset +
            static_cast<int64_t>(p.head) * layout.features;
    from_float(a, to[p.first]);
    if (paired) from_float(b, to[p.second]);
  }
}

// Keys that a row sees: all, or those up to its own position.
__device__ int64_t keys_of(const Softmax& shape, int64_t row) {
  return shape.causal ? row % shape.queries + 1 : shape.keys;
}

struct Survival {
  uint64_t seed;
  const uint64_t* draw;
  unsigned threshold;
  float scale;
  __device__ float of(int64_t index) const {
    return threshold == 0 || is_kept(seed + *draw, index, threshold) ? scale : 0;
  }
};
Survival survival_of(const Dropout& dropout) {
  return {dropout.seed, dropout.draw, dropout_threshold(dropout.probability), 1 / (1 - dropout.probability)};
}

template <typename T>
__global__ void __launch_bounds__(softmax_threads)
    softmax_kernel(Softmax shape, Survival survival, const float* scores, T* softmax, float* logarithms,
                   T* dropped) {
  const int64_t row = blockIdx.x, begin = row * shape.keys, seen = keys_of(shape, row);
  float largest = -INFINITY;
  for (int64_t k = threadIdx.x; k < seen; k += softmax_threads) largest = fmaxf(largest, scores[begin + k]);
  largest = reduce_block<true>(largest);
  float sum = 0;
  for (int64_t k = threadIdx.x; k < seen; k += softmax_threads) sum += expf(scores[begin + k] - largest);
  sum = reduce_block<false>(sum);
  for (int64_t k = threadIdx.x; k < shape.keys; k += softmax_threads) {
    const float p = k < seen ? expf(scores[begin + k] - largest) / sum : 0;
    if (softmax) from_float(p, softmax[begin + k]);
    if (dropped) from_float(p * survival.of(begin + k), dropped[begin + k]);
  }
  if (logarithms && threadIdx.x == 0) logarithms[row] = largest + logf(sum);
}

template <typename T>
__device__ float probability(const Softmax& shape, const float* scores, const float* logarithms,
                             const T* softmax, int64_t row, int64_t k, int64_t seen) {
  const int64_t index = row * shape.keys + k;
  if (softmax) return to_float(softmax[index]);
  return k < seen ? expf(scores[index] - logarithms[row]) : 0;
}

template <typename T>
__global__ void __launch_bounds__(softmax_threads)
    again_kernel(Softmax shape, Survival survival, const float* scores, const float* logarithms,
                 const T* softmax, T* dropped) {
  const int64_t row = blockIdx.x, seen = keys_of(shape, row);
  for (int64_t k = threadIdx.x; k < shape.keys; k += softmax_threads) {
    const int64_t index = row * shape.keys + k;
    const float p = probability(shape, scores, logarithms, softmax, row, k, seen);
    from_float(p * survival.of(index), dropped[index]);
  }
}

template <typename T>
__global__ void __launch_bounds__(softmax_threads)
    backward_kernel(Softmax shape, Survival survival, const float* scores, const float* logarithms,
                    const T* softmax, const float* gradient, float scale, T* scores_gradient) {
  const int64_t row = blockIdx.x, seen = keys_of(shape, row), begin = row * shape.keys;
  float product = 0;
  for (int64_t k = threadIdx.x; k < seen; k += softmax_threads) {
    const float p = probability(shape, scores, logarithms, softmax, row, k, seen);
    product += p * gradient[begin + k] * survival.of(begin + k);
  }
  product = reduce_block<false>(product);
  for (int64_t k = threadIdx.x; k < shape.keys; k += softmax_threads) {
    float g = 0;
    if (k < seen) {
      const float p = probability(shape, scores, logarithms, softmax, row, k, seen);
      g = p * (gradient[begin + k] * survival.of(begin + k) - product) * scale;
    }
    from_float(g, scores_gradient[begin + k]);
  }
}

}  // namespace

void split_heads(Scalar type, const HeadLayout& layout, const void* packed, void* heads,
                 cudaStream_t stream) {
  const std::int64_t items = layout.batch * layout.positions * layout.heads * ((layout.features + 1) / 2);
  with_type(type, [&](auto element) {
    using T = decltype(element);
    split_kernel<T><<<blocks_for(items), item_threads, 0, stream>>>(layout, static_cast<const T*>(packed),
                                                                    static_cast<T*>(heads));
  });
  FORETRAIN_LAUNCHED();
}

void join_heads(Scalar type, const HeadLayout& layout, const void* heads, void* packed, cudaStream_t stream) {
  const std::int64_t items = layout.batch * layout.positions * layout.heads * ((layout.features + 1) / 2);
  with_type(type, [&](auto element) {
    using T = decltype(element);
    join_kernel<T><<<blocks_for(items), item_threads, 0, stream>>>(layout, static_cast<const T*>(heads),
                                                                   static_cast<T*>(packed));
  });
  FORETRAIN_LAUNCHED();
}

void softmax_forward(Scalar type, const Softmax& shape, const float* scores, void* softmax, float* logarithms,
                     void* dropped, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    softmax_kernel<T><<<static_cast<unsigned>(shape.rows), softmax_threads, 0, stream>>>(
        shape, survival_of(shape.dropout), scores, static_cast<T*>(softmax), logarithms,
        static_cast<T*>(dropped));
  });
  FORETRAIN_LAUNCHED();
}

void softmax_again(Scalar type, const Softmax& shape, const float* scores, const float* logarithms,
                   const void* softmax, void* dropped, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    again_kernel<T><<<static_cast<unsigned>(shape.rows), softmax_threads, 0, stream>>>(
        shape, survival_of(shape.dropout), scores, logarithms, static_cast<const T*>(softmax),
        static_cast<T*>(dropped));
  });
  FORETRAIN_LAUNCHED();
}

void softmax_backward(Scalar type, const Softmax& shape, const float* scores, const float* logarithms,
                      const void* softmax, const float* gradient, float scale, void* scores_gradient,
                      cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    backward_kernel<T><<<static_cast<unsigned>(shape.rows), softmax_threads, 0, stream>>>(
        shape, survival_of(shape.dropout), scores, logarithms, static_cast<const T*>(softmax), gradient,
        scale, static_cast<T*>(scores_gradient));
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

// Rows of a table chosen by tokens, and the gradient of the table: tokens sorted by CUB, so that equal ones
// are neighbours and are added in a fixed order. Runs of equal ones are cut: of padded rows half may be one
// token, of a text one in twenty.
#include <cub/device/device_radix_sort.cuh>

#include "device/cuda/check.hpp"
#include "device/cuda/items.cuh"
#include "device/cuda/sequence.hpp"
#include "device/cuda/vector.cuh"

namespace foretrain::device::cuda {
namespace {

constexpr int row_threads = 128;
constexpr int piece_rows = 32;  // rows of the sorted list that one block adds at most

__device__ int64_t token_at(const EmbeddingShape& shape, int64_t row) {
  return (row / shape.length * shape.streams + shape.stream) * shape.length + row % shape.length;
}

// Vaswani et al. 2017: sin and cos in turn, of the position over 10000^(2i / features).
__device__ float sinusoid(int64_t position, int64_t feature, int64_t features) {
  const float exponent = static_cast<float>(feature / 2 * 2) / static_cast<float>(features);
  const float angle = static_cast<float>(position) * expf(-9.210340371976184f * exponent);
  return feature % 2 == 0 ? sinf(angle) : cosf(angle);
}

template <typename T, int width>
__global__ void __launch_bounds__(row_threads)
    forward_kernel(EmbeddingShape shape, const int32_t* tokens, const T* table, const T* positions,
                   const T* segments, T* y) {
  using V = Vector<T, width>;
  const int64_t row = blockIdx.x, position = row % shape.length, vectors = shape.features / width;
  const int64_t token = tokens[token_at(shape, row)];
  for (int64_t v = threadIdx.x; v < vectors; v += row_threads) {
    float values[width], more[width];
    V::unpack(V::load(table, token * vectors + v), values);
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] *= shape.scale;
    if (positions) {
      V::unpack(V::load(positions, position * vectors + v), more);
#pragma unroll
      for (int i = 0; i < width; ++i) values[i] += more[i];
    }
    if (segments) {
      V::unpack(V::load(segments, v), more);
#pragma unroll
      for (int i = 0; i < width; ++i) values[i] += more[i];
    }
    if (shape.sinusoidal) {
#pragma unroll
      for (int i = 0; i < width; ++i) values[i] += sinusoid(position, v * width + i, shape.features);
    }
    V::store(y, row * vectors + v, values);
  }
}

__global__ void list_kernel(EmbeddingShape shape, const int32_t* tokens, int32_t* keys, int32_t* rows) {
  const int64_t count = shape.batch * shape.length;
  for (int64_t row = first_item(); row < count; row += item_step()) {
    keys[row] = tokens[token_at(shape, row)];
    rows[row] = static_cast<int32_t>(row);
  }
}

// Partial sums, `features` floats each: of the pieces that begin at a multiple of piece_rows, by that
// multiple; then of those that begin a run elsewhere and go on behind the next multiple, by the multiple
// before.
__host__ __device__ int64_t pieces_of(int64_t count) {
  return (count + piece_rows - 1) / piece_rows;
}

// A block where a new token or a piece begins in the sorted list.
template <typename T>
__global__ void __launch_bounds__(row_threads)
    pieces_kernel(EmbeddingShape shape, const int32_t* keys, const int32_t* rows, const T* dy,
                  GradientSink table, float* partial) {
  const int64_t first = blockIdx.x, count = shape.batch * shape.length, piece = first / piece_rows;
  const int32_t token = keys[first];
  const bool begins_run = first == 0 || keys[first - 1] != token, begins_piece = first % piece_rows == 0;
  if (!begins_run && !begins_piece) return;
  int64_t end = first + 1;
  while (end < count && end / piece_rows == piece && keys[end] == token) ++end;
  const bool ends_run = end == count || keys[end] != token;
  const int64_t slot = begins_piece ? piece : pieces_of(count) + piece;
  for (int64_t feature = threadIdx.x; feature < shape.features; feature += row_threads) {
    float sum = 0;
#pragma unroll 4
    for (int64_t at = first; at < end; ++at) sum += to_float(dy[rows[at] * shape.features + feature]);
    if (begins_run && ends_run) {
      store_gradient(table, token * shape.features + feature, sum * shape.scale);
    } else {
      partial[slot * shape.features + feature] = sum;
    }
  }
}

// A block for each piece: where a run begins in it and goes on behind it, the sum of the run's pieces.
__global__ void __launch_bounds__(row_threads)
    runs_kernel(EmbeddingShape shape, const int32_t* keys, const float* partial, GradientSink table) {
  const int64_t piece = blockIdx.x, count = shape.batch * shape.length, next = (piece + 1) * piece_rows;
  if (next >= count || keys[next - 1] != keys[next]) return;
  const int32_t token = keys[next];
  const int64_t begin = piece * piece_rows;
  const bool fills_piece = keys[begin] == token;
  if (fills_piece && begin > 0 && keys[begin - 1] == token) return;  // begun before
  int64_t last = piece + 1;
  while ((last + 1) * piece_rows < count && keys[(last + 1) * piece_rows] == token) ++last;
  const int64_t slot = fills_piece ? piece : pieces_of(count) + piece;
  for (int64_t feature = threadIdx.x; feature < shape.features; feature += row_threads) {
    float sum = partial[slot * shape.features + feature];
#pragma unroll 4
    for (int64_t other = piece + 1; other <= last; ++other) sum += partial[other * shape.features + feature];
    store_gradient(table, token * shape.features + feature, sum * shape.scale);
  }
}

template <typename T>
__global__ void positions_kernel(EmbeddingShape shape, const T* dy, GradientSink positions) {
  const int64_t count = shape.length * shape.features;
  for (int64_t index = first_item(); index < count; index += item_step()) {
    float sum = 0;
    for (int64_t sample = 0; sample < shape.batch; ++sample) sum += to_float(dy[sample * count + index]);
    store_gradient(positions, index, sum);
  }
}

int bits_of(std::int64_t vocabulary) {
  int bits = 1;
  while ((std::int64_t{1} << bits) < vocabulary) ++bits;
  return bits;
}

std::size_t sort_bytes(const EmbeddingShape& shape) {
  std::size_t bytes = 0;
  std::int32_t* none = nullptr;
  FORETRAIN_CUDA(cub::DeviceRadixSort::SortPairs(
      nullptr, bytes, none, none, none, none, static_cast<int>(shape.rows()), 0, bits_of(shape.vocabulary)));
  return bytes;
}

std::int64_t partial_bytes(const EmbeddingShape& shape) {
  return 2 * pieces_of(shape.rows()) * shape.features * 4;
}

}  // namespace

void embedding_forward(Scalar type, const EmbeddingShape& shape, const std::int32_t* tokens,
                       const void* table, const void* positions, const void* segments, void* y,
                       cudaStream_t stream) {
  with_vector(type, shape.features, [&](auto element, auto width) {
    using T = decltype(element);
    forward_kernel<T, decltype(width)::value>
        <<<static_cast<unsigned>(shape.rows()), row_threads, 0, stream>>>(
            shape, tokens, static_cast<const T*>(table), static_cast<const T*>(positions),
            static_cast<const T*>(segments), static_cast<T*>(y));
  });
  FORETRAIN_LAUNCHED();
}

std::int64_t embedding_scratch_bytes(const EmbeddingShape& shape) {
  return 4 * aligned(shape.rows() * 4) + aligned(partial_bytes(shape)) +
         static_cast<std::int64_t>(sort_bytes(shape));
}

void embedding_backward(Scalar type, const EmbeddingShape& shape, const std::int32_t* tokens, const void* dy,
                        const GradientSink& table, void* scratch, cudaStream_t stream) {
  auto* at = static_cast<std::byte*>(scratch);
  std::int32_t* lists[4];
  for (std::int32_t*& list : lists) {
    list = reinterpret_cast<std::int32_t*>(at);
    at += aligned(shape.rows() * 4);
  }
  auto* partial = reinterpret_cast<float*>(at);
  at += aligned(partial_bytes(shape));
  list_kernel<<<blocks_for(shape.rows()), item_threads, 0, stream>>>(shape, tokens, lists[0], lists[1]);
  FORETRAIN_LAUNCHED();
  std::size_t bytes = sort_bytes(shape);
  FORETRAIN_CUDA(cub::DeviceRadixSort::SortPairs(at, bytes, lists[0], lists[2], lists[1], lists[3],
                                                 static_cast<int>(shape.rows()), 0, bits_of(shape.vocabulary),
                                                 stream));
  if (!table.adds) {
    const std::int64_t all = shape.vocabulary * shape.features * bytes_of(table.type);
    FORETRAIN_CUDA(cudaMemsetAsync(table.data, 0, static_cast<std::size_t>(all), stream));
  }
  with_type(type, [&](auto element) {
    using T = decltype(element);
    pieces_kernel<T><<<static_cast<unsigned>(shape.rows()), row_threads, 0, stream>>>(
        shape, lists[2], lists[3], static_cast<const T*>(dy), table, partial);
  });
  FORETRAIN_LAUNCHED();
  runs_kernel<<<static_cast<unsigned>(pieces_of(shape.rows())), row_threads, 0, stream>>>(shape, lists[2],
                                                                                          partial, table);
  FORETRAIN_LAUNCHED();
}

void positions_backward(Scalar type, const EmbeddingShape& shape, const void* dy,
                        const GradientSink& positions, cudaStream_t stream) {
  with_type(type, [&](auto element) {
    using T = decltype(element);
    positions_kernel<T><<<blocks_for(shape.length * shape.features), item_threads, 0, stream>>>(
        shape, static_cast<const T*>(dy), positions);
  });
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

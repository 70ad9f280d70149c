// Our own kernels of sequence models: launchers in plain C++. Tensors are rows x channels, where rows counts
// samples times positions. All are deterministic; none allocates or synchronizes.
#pragma once

#include "device/cuda/kernels.hpp"

namespace foretrain::device::cuda {

// Rows of a table chosen by tokens {batch, streams, length}, of which one stream is read.
struct EmbeddingShape {
  std::int64_t batch, streams, length, features, vocabulary;
  int stream;
  float scale;      // of the table's row
  bool sinusoidal;  // sin and cos of the position are added
  std::int64_t rows() const { return batch * length; }
};
// y[b, s] = scale table[token] + positions[s] + segments[0] (each where not null; types of y).
void embedding_forward(Scalar type, const EmbeddingShape& shape, const std::int32_t* tokens,
                       const void* table, const void* positions, const void* segments, void* y,
                       cudaStream_t stream);
// Sorted tokens and the rows that they stand in: scratch of embedding_backward.
std::int64_t embedding_scratch_bytes(const EmbeddingShape& shape);
// Gradient of the table: of every row of it, zeros for those that no token chose. Equal tokens are added in
// the order of their rows.
void embedding_backward(Scalar type, const EmbeddingShape& shape, const std::int32_t* tokens, const void* dy,
                        const GradientSink& table, void* scratch, cudaStream_t stream);
// Of the first `length` rows of a table of positions.
void positions_backward(Scalar type, const EmbeddingShape& shape, const void* dy,
                        const GradientSink& positions, cudaStream_t stream);

// A table's gradient as rows and numbers (device/sparse_table.hpp): `lookups` streams of tokens {batch,
// streams, length} are looked up in it.
struct SparseRows {
  static constexpr int most_lookups = 8;
  std::int64_t batch, streams, length, features, vocabulary;
  int lookups;
  int stream[most_lookups];
  bool whole;
  std::int64_t tokens() const { return lookups * batch * length; }
  std::int64_t rows() const { return (whole ? vocabulary : 0) + tokens(); }
};
// first: scratch, a whole number of 32 bits a row of the table.
void gather_rows(const SparseRows& shape, const std::int32_t* tokens, const void* table, Scalar type,
                 std::int32_t* first, std::int64_t* numbers, void* values, cudaStream_t stream);
// Adds one rank's rows.
void add_rows(const SparseRows& shape, const std::int64_t* numbers, const void* values, void* table,
              Scalar type, cudaStream_t stream);

// moments: of layer_norm mean and 1 / deviation of each row, of rms_norm 1 / root of the mean square.
struct RowNorm {
  std::int64_t rows, channels;
  bool rms;
  float epsilon;
  const float *weight, *bias;  // bias may be null
  float* moments;
};
void row_norm_forward(Scalar type, const RowNorm& norm, const void* x, void* y, cudaStream_t stream);
void row_norm_backward_weights(Scalar type, const RowNorm& norm, const void* x, const void* dy,
                               const GradientSink& weight, const GradientSink& bias,
                               const Reduction& reduction, cudaStream_t stream);
// existing (may be null) is added; dx may be dy or existing.
void row_norm_backward_data(Scalar type, const RowNorm& norm, const void* x, const void* dy,
                            const void* existing, void* dx, cudaStream_t stream);

enum class Activation { gelu, gelu_tanh, silu };
void activation_forward(Scalar type, Activation activation, std::int64_t count, const void* x, void* y,
                        cudaStream_t stream);
void activation_backward(Scalar type, Activation activation, std::int64_t count, const void* x,
                         const void* dy, void* dx, cudaStream_t stream);

// A function of seed, draw and index alone, so that the backward pass finds the elements that were dropped.
// The draw is read from the device, so that recorded work draws anew.
struct Dropout {
  float probability = 0;
  std::uint64_t seed = 0;
  const std::uint64_t* draw = nullptr;
};
void next_draw(std::uint64_t* draw, cudaStream_t stream);  // adds 1
void dropout(Scalar type, std::int64_t count, const Dropout& dropout, const void* x, void* y,
             cudaStream_t stream);

void multiply(Scalar type, std::int64_t count, const void* a, const void* b, void* product,
              cudaStream_t stream);
// da = dy b and db = dy a, each where not null; neither may be dy, a or b.
void multiply_backward(Scalar type, std::int64_t count, const void* dy, const void* a, const void* b,
                       void* da, void* db, cudaStream_t stream);
// to[r, to_offset + c] = from[r, from_offset + c] for c < columns.
void copy_columns(Scalar type, std::int64_t rows, std::int64_t columns, const void* from,
                  std::int64_t from_channels, std::int64_t from_offset, void* to, std::int64_t to_channels,
                  std::int64_t to_offset, cudaStream_t stream);

// Heads of attention laid out for batched products: {batch, heads, positions, features}.
struct HeadLayout {
  std::int64_t batch, positions;
  int heads, repeated;  // each head of the packed tensor serves `repeated` ones: heads / repeated are packed
  int features;         // of a head
  std::int64_t channels,
      offset;             // of the packed tensor {batch, positions, channels}, and where the part begins
  float rotary_base = 0;  // above 0: turned by the position
};
void split_heads(Scalar type, const HeadLayout& layout, const void* packed, void* heads, cudaStream_t stream);
// The reverse; heads that one served are added, in order, and turned back.
void join_heads(Scalar type, const HeadLayout& layout, const void* heads, void* packed, cudaStream_t stream);

struct Softmax {
  std::int64_t rows, keys, queries;  // rows: batch x heads x queries
  bool causal;
  Dropout dropout;  // of the softmax
};
// From fp32 scores. Each of these may be null: softmax as it is, logarithms of the sums (fp32, a row each),
// softmax after dropout.
void softmax_forward(Scalar type, const Softmax& shape, const float* scores, void* softmax, float* logarithms,
                     void* dropped, cudaStream_t stream);
// The softmax after dropout again, from the softmax, or from scores and logarithms where it is null.
void softmax_again(Scalar type, const Softmax& shape, const float* scores, const float* logarithms,
                   const void* softmax, void* dropped, cudaStream_t stream);
// Gradient of the scores from that of the softmax after dropout (fp32), times scale.
void softmax_backward(Scalar type, const Softmax& shape, const float* scores, const float* logarithms,
                      const void* softmax, const float* gradient, float scale, void* scores_gradient,
                      cudaStream_t stream);

}  // namespace foretrain::device::cuda

// Our own kernels: launchers in plain C++. Tensors are channels-last, `rows` x `channels`, where rows counts
// samples times height times width. All are deterministic; none allocates or synchronizes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace foretrain::device::cuda {

// Element type of a tensor in memory; arithmetic is in fp32.
enum class Scalar { f32, bf16, f16 };
inline constexpr int bytes_of(Scalar type) {
  return type == Scalar::f32 ? 4 : 2;
}

// Bytes of a part of scratch memory, so that the next one begins where libraries like it.
inline constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Where the gradient of a parameter goes: set, or added to what is there.
struct GradientSink {
  void* data = nullptr;
  Scalar type = Scalar::f32;
  bool adds = false;
};

// Scratch memory of the reductions over rows: reduction_bytes() for the partial sums, and counters that are
// zero before and after each use.
struct Reduction {
  float* partial = nullptr;
  unsigned* counters = nullptr;
};
std::int64_t reduction_bytes(std::int64_t channels);
inline constexpr int reduction_counters = 4096;

// Per channel, fp32, `channels` each.
struct BatchNormState {
  const float *gamma, *beta;
  float *running_mean, *running_variance;
  float *mean, *inverse_deviation;  // of the batch
  float *scale, *shift;             // y = x scale + shift
  float *a, *b, *c;                 // dx = a g + b x + c
};

struct BatchNormShape {
  std::int64_t rows, channels;
  float epsilon, momentum;
};

// Mean and variance of x (or of sum = x + addend, which is then written) over the rows, in training mode;
// fills the state and moves the running statistics.
void batch_norm_statistics(Scalar type, const BatchNormShape& shape, const void* x, const void* addend,
                           void* sum, const BatchNormState& state, const Reduction& reduction,
                           cudaStream_t stream);
// y = x scale + shift, plus residual where given, then ReLU where asked. mask gets a bit an element (one byte
// for mask_group() elements) that says y > 0, where given.
void batch_norm_apply(Scalar type, const BatchNormShape& shape, const void* x, const void* residual,
                      bool relu, void* y, std::uint8_t* mask, const BatchNormState& state,
                      cudaStream_t stream);
int mask_group(Scalar type, std::int64_t channels);

enum class ReluMask { none, recompute, stored };  // recompute: from x scale + shift
struct BatchNormGradient {
  const void *dy, *dy2;  // their sum is the gradient of y; dy2 may be null
  const void* x;
  ReluMask relu;
  const std::uint8_t* mask;  // where stored
  void* g;                   // the gradient after the ReLU is written here where not null
  GradientSink gamma_gradient, beta_gradient;
};
// Sums over the rows: gradients of gamma and beta, and the coefficients of batch_norm_backward_data.
void batch_norm_backward_reduce(Scalar type, const BatchNormShape& shape, const BatchNormGradient& gradient,
                                const BatchNormState& state, const Reduction& reduction, cudaStream_t stream);
// dx = a g + b x + c, plus `existing` where given. g is dy where relu is none, else masked on the fly.
void batch_norm_backward_data(Scalar type, const BatchNormShape& shape, const void* dy, const void* x,
                              ReluMask relu, const void* existing, void* dx, const BatchNormState& state,
                              cudaStream_t stream);

// y = x + bias, then ReLU where asked. In place where y == x.
void bias_forward(Scalar type, std::int64_t rows, std::int64_t channels, const void* x, const float* bias,
                  bool relu, void* y, cudaStream_t stream);
// g = (dy + dy2) where y > 0 (everywhere where y is null); bias_gradient = sum of g over the rows. dy2 may be
// null; g may be dy or null.
void bias_backward(Scalar type, std::int64_t rows, std::int64_t channels, const void* dy, const void* dy2,
                   const void* y, void* g, const GradientSink& bias_gradient, const Reduction& reduction,
                   cudaStream_t stream);

struct PoolShape {
  std::int64_t batch, channels;
  int in_h, in_w, out_h, out_w;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  bool count_padding;  // average: whether padding counts in the mean
};
// choice: for each output element the place in its window that held the maximum.
void max_pool_forward(Scalar type, const PoolShape& shape, const void* x, void* y, std::uint8_t* choice,
                      cudaStream_t stream);
void max_pool_backward(Scalar type, const PoolShape& shape, const void* dy, const std::uint8_t* choice,
                       void* dx, cudaStream_t stream);
void avg_pool_forward(Scalar type, const PoolShape& shape, const void* x, void* y, cudaStream_t stream);
void avg_pool_backward(Scalar type, const PoolShape& shape, const void* dy, void* dx, cudaStream_t stream);

// Elementwise; outputs may be inputs.
void relu_forward(Scalar type, std::int64_t count, const void* x, void* y, cudaStream_t stream);
void relu_backward(Scalar type, std::int64_t count, const void* dy, const void* y, void* dx,
                   cudaStream_t stream);
void add(Scalar type, std::int64_t count, const void* a, const void* b, void* sum, cudaStream_t stream);

// Softmax cross-entropy, mean over the rows whose label is not -1: loss, and the gradient of the logits,
// which may lie over them. all_due: no label is -1. losses is scratch of `rows`; of the two counters the
// first is zero before and after.
void cross_entropy(Scalar type, std::int64_t rows, std::int64_t classes, const void* logits,
                   const std::int32_t* labels, bool all_due, void* gradient, float* losses, float* loss,
                   unsigned* counters, cudaStream_t stream);

// Sum of squares of a flat buffer, in a fixed order; partial: scratch of squares_blocks floats.
inline constexpr int squares_blocks = 1024;
void sum_of_squares(std::int64_t count, const void* from, Scalar type, float* partial, float* sum,
                    cudaStream_t stream);

// Gradients are scaled down to `most` in norm over all parameters, gradient_scale included, where above it.
struct NormClip {
  const float* squares = nullptr;  // of the gradients, on the device; null: no clipping
  float most = 0;
};
// What differs from one update to the next.
struct UpdateScalars {
  float learning_rate = 0, gradient_scale = 1;
  float correction1 = 1, correction2 = 1;  // Adam's, 1 - beta^step
  bool operator==(const UpdateScalars& other) const {
    return learning_rate == other.learning_rate && gradient_scale == other.gradient_scale &&
           correction1 == other.correction1 && correction2 == other.correction2;
  }
};
void put_scalars(const UpdateScalars& values, UpdateScalars* to, cudaStream_t stream);
struct SgdArguments {
  float momentum, weight_decay;
  bool nesterov;
  NormClip clip;
  UpdateScalars scalars;
  const UpdateScalars* on_device;  // in place of `scalars` where not null
};
// PyTorch's SGD over flat buffers of `count` elements (a multiple of 8); copy, where not null, gets the new
// weights as bf16. velocity is null where momentum is 0.
void sgd_update(std::int64_t count, float* weights, const void* gradients, Scalar gradient_type,
                float* velocity, void* copy, const SgdArguments& arguments, cudaStream_t stream);
struct AdamArguments {
  float beta1, beta2, epsilon, weight_decay;
  bool decoupled;  // AdamW
  NormClip clip;
  UpdateScalars scalars;
  const UpdateScalars* on_device;
};
void adam_update(std::int64_t count, float* weights, const void* gradients, Scalar gradient_type,
                 float* first, float* second, void* copy, const AdamArguments& arguments,
                 cudaStream_t stream);

// to[r][c] = from[r][c] for c < channels, 0 for further c of `to`; types and channel counts may differ.
// `adds`: to[r][c] += from[r][c].
void convert_rows(std::int64_t rows, std::int64_t channels, const void* from, Scalar from_type,
                  std::int64_t from_channels, void* to, Scalar to_type, std::int64_t to_channels,
                  cudaStream_t stream, bool adds = false);
// fp32 NCHW images to channels-last with to_channels >= channels (padded with zeros).
void images_to_channels_last(std::int64_t batch, std::int64_t channels, std::int64_t pixels,
                             const float* images, void* to, Scalar type, std::int64_t to_channels,
                             cudaStream_t stream);
// Normal numbers with the standard deviation given, a function of seed and index alone.
void fill_normal(std::int64_t count, void* to, Scalar type, float deviation, std::uint64_t seed,
                 cudaStream_t stream);
// A parameter's initial weights: `seed` is its own (device/initial_weights.hpp), and index that of the
// model's layout, (out, in, pixel), while they lie as (out, pixel, in).
void fill_weights(std::int64_t count, float* to, std::int64_t in, std::int64_t pixels, float deviation,
                  std::uint64_t seed, cudaStream_t stream);
void fill_labels(std::int64_t count, std::int32_t* to, std::int32_t classes, std::uint64_t seed,
                 cudaStream_t stream);
// Sum of a hash of each element and its index, order-independent; *sum must be 0 before.
void checksum(std::int64_t count, const float* from, unsigned long long* sum, cudaStream_t stream);

void empty_kernel(cudaStream_t stream);
void spin_kernel(double seconds, cudaStream_t stream);
// Holds the stream until *opened >= ticket, at most `limit` seconds.
void gate_kernel(const volatile unsigned* opened, unsigned ticket, double limit, cudaStream_t stream);

}  // namespace foretrain::device::cuda

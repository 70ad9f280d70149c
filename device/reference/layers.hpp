// The layers in double precision: plain loops over batch x channels x height x width, nothing fused, nothing
// clever. What other backends compute is held against these.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/training/model.hpp"

namespace foretrain::device::reference {

using Tensor = std::vector<double>;

// Image extents of a convolution or a pool; linear and flat tensors have height and width 1.
struct ImageShape {
  std::int64_t batch = 1, channels = 1, height = 1, width = 1;
  std::int64_t elements() const { return batch * channels * height * width; }
  std::int64_t pixels() const { return height * width; }
};
ImageShape image_shape(std::int64_t batch, const Shape& shape);

// y[n, o] = sum over i, window: w[o, i] x[n, i], plus bias[o] where bias is not empty.
void conv2d_forward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& x,
                    const Tensor& w, const Tensor& bias, Tensor& y);
// dx += the transposed convolution of dy.
void conv2d_backward_data(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& dy,
                          const Tensor& w, Tensor& dx);
// dw and dbias (where not empty) are set.
void conv2d_backward_weights(const ImageShape& in, const ImageShape& out, const Window& window,
                             const Tensor& x, const Tensor& dy, Tensor& dw, Tensor& dbias);

// Of one batch, kept for the backward pass.
struct BatchStatistics {
  Tensor mean, inverse_deviation;
};
// y = gamma (x - mean) / sqrt(variance + epsilon) + beta over batch and pixels, biased variance; the running
// statistics move by momentum, their variance unbiased (Ioffe & Szegedy 2015, as PyTorch does it).
void batch_norm_forward(const ImageShape& shape, double epsilon, double momentum, const Tensor& x,
                        const Tensor& gamma, const Tensor& beta, Tensor& y, BatchStatistics& statistics,
                        Tensor& running_mean, Tensor& running_variance);
void batch_norm_backward_weights(const ImageShape& shape, const Tensor& x, const Tensor& dy,
                                 const BatchStatistics& statistics, Tensor& dgamma, Tensor& dbeta);
// dx += gamma / deviation (dy - mean(dy) - x_hat mean(dy x_hat)).
void batch_norm_backward_data(const ImageShape& shape, const Tensor& x, const Tensor& dy, const Tensor& gamma,
                              const BatchStatistics& statistics, Tensor& dx);

// choice: for each output the index in x of its maximum, the first of equals.
void max_pool_forward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& x,
                      Tensor& y, std::vector<std::int64_t>& choice);
void avg_pool_forward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& x,
                      Tensor& y);
void avg_pool_backward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& dy,
                       Tensor& dx);

// y = x w^T + bias; w is out x in.
void linear_forward(std::int64_t batch, std::int64_t in, std::int64_t out, const Tensor& x, const Tensor& w,
                    const Tensor& bias, Tensor& y);
void linear_backward_data(std::int64_t batch, std::int64_t in, std::int64_t out, const Tensor& dy,
                          const Tensor& w, Tensor& dx);
void linear_backward_weights(std::int64_t batch, std::int64_t in, std::int64_t out, const Tensor& x,
                             const Tensor& dy, Tensor& dw, Tensor& dbias);

// Mean over the rows of -log softmax(x)[label], of those whose label is not -1; gradient is that of x.
double softmax_cross_entropy(std::int64_t batch, std::int64_t classes, const Tensor& x,
                             const std::vector<std::int32_t>& labels, Tensor& gradient);

}  // namespace foretrain::device::reference

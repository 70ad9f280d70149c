#include "device/reference/layers.hpp"

#include <algorithm>
#include <cmath>

#include "device/reference/indexing.hpp"

namespace foretrain::device::reference {
namespace {

// Calls visit(input row, input column, kernel row, kernel column) for the window elements of one output pixel
// that lie inside the image.
template <typename Visit>
void each_tap(const ImageShape& in, const Window& w, Index oh, Index ow, Visit visit) {
  for (Index kh = 0; kh < w.kernel_h; ++kh) {
    const Index ih = oh * w.stride_h - w.pad_h + kh * w.dilation_h;
    if (ih < 0 || ih >= in.height) continue;
    for (Index kw = 0; kw < w.kernel_w; ++kw) {
      const Index iw = ow * w.stride_w - w.pad_w + kw * w.dilation_w;
      if (iw >= 0 && iw < in.width) visit(ih, iw, kh, kw);
    }
  }
}

// Calls visit(output index, input index, weight index) for every multiplication of a convolution.
template <typename Visit>
void each_product(const ImageShape& in, const ImageShape& out, const Window& w, Visit visit) {
  const Index in_group = in.channels / w.groups, out_group = out.channels / w.groups;
  for (Index n = 0; n < out.batch; ++n) {
    for (Index o = 0; o < out.channels; ++o) {
      const Index first = o / out_group * in_group;
      for (Index i = 0; i < in_group; ++i) {
        const Index image = (n * in.channels + first + i) * in.pixels();
        const Index kernel = (o * in_group + i) * w.kernel_h * w.kernel_w;
        for (Index oh = 0; oh < out.height; ++oh) {
          for (Index ow = 0; ow < out.width; ++ow) {
            const Index y = ((n * out.channels + o) * out.height + oh) * out.width + ow;
            each_tap(in, w, oh, ow, [&](Index ih, Index iw, Index kh, Index kw) {
              visit(at(y), at(image + ih * in.width + iw), at(kernel + kh * w.kernel_w + kw));
            });
          }
        }
      }
    }
  }
}

// Calls visit(channel, index) for every element of a tensor of images.
template <typename Visit>
void each_element(const ImageShape& shape, Visit visit) {
  Index index = 0;
  for (Index n = 0; n < shape.batch; ++n)
    for (Index c = 0; c < shape.channels; ++c)
      for (Index p = 0; p < shape.pixels(); ++p) visit(at(c), at(index++));
}

// Elements that a mean over one window is taken of: all of it, or what lies inside the image.
double mean_divisor(const ImageShape& in, const Window& w, Index oh, Index ow) {
  if (w.count_padding) return static_cast<double>(w.kernel_h) * w.kernel_w;
  double count = 0;
  each_tap(in, w, oh, ow, [&](Index, Index, Index, Index) { count += 1; });
  return count;
}

}  // namespace

ImageShape image_shape(std::int64_t batch, const Shape& shape) {
  ImageShape image{batch, shape.empty() ? 1 : shape[0], 1, 1};
  if (shape.size() == 2) image.height = shape[1];  // of a sequence: only the number of elements counts
  if (shape.size() == 3) {
    image.height = shape[1];
    image.width = shape[2];
  }
  return image;
}

void conv2d_forward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& x,
                    const Tensor& w, const Tensor& bias, Tensor& y) {
  std::fill(y.begin(), y.end(), 0.0);
  each_product(in, out, window,
               [&](std::size_t iy, std::size_t ix, std::size_t iw) { y[iy] += w[iw] * x[ix]; });
  if (!bias.empty()) each_element(out, [&](std::size_t c, std::size_t i) { y[i] += bias[c]; });
}

void conv2d_backward_data(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& dy,
                          const Tensor& w, Tensor& dx) {
  each_product(in, out, window,
               [&](std::size_t iy, std::size_t ix, std::size_t iw) { dx[ix] += w[iw] * dy[iy]; });
}

void conv2d_backward_weights(const ImageShape& in, const ImageShape& out, const Window& window,
                             const Tensor& x, const Tensor& dy, Tensor& dw, Tensor& dbias) {
  std::fill(dw.begin(), dw.end(), 0.0);
  each_product(in, out, window,
               [&](std::size_t iy, std::size_t ix, std::size_t iw) { dw[iw] += x[ix] * dy[iy]; });
  if (dbias.empty()) return;
  std::fill(dbias.begin(), dbias.end(), 0.0);
  each_element(out, [&](std::size_t c, std::size_t i) { dbias[c] += dy[i]; });
}

void batch_norm_forward(const ImageShape& shape, double epsilon, double momentum, const Tensor& x,
                        const Tensor& gamma, const Tensor& beta, Tensor& y, BatchStatistics& statistics,
                        Tensor& running_mean, Tensor& running_variance) {
  const std::size_t channels = at(shape.channels);
  const double count = static_cast<double>(shape.batch * shape.pixels());
  Tensor variance(channels, 0.0);
  statistics.mean.assign(channels, 0.0);
  statistics.inverse_deviation.assign(channels, 0.0);
  each_element(shape, [&](std::size_t c, std::size_t i) { statistics.mean[c] += x[i] / count; });
  each_element(shape, [&](std::size_t c, std::size_t i) {
    const double distance = x[i] - statistics.mean[c];
    variance[c] += distance * distance / count;
  });
  for (std::size_t c = 0; c < channels; ++c) {
    statistics.inverse_deviation[c] = 1 / std::sqrt(variance[c] + epsilon);
    const double unbiased = count > 1 ? variance[c] * count / (count - 1) : variance[c];
    running_mean[c] += momentum * (statistics.mean[c] - running_mean[c]);
    running_variance[c] += momentum * (unbiased - running_variance[c]);
  }
  each_element(shape, [&](std::size_t c, std::size_t i) {
    y[i] = gamma[c] * (x[i] - statistics.mean[c]) * statistics.inverse_deviation[c] + beta[c];
  });
}

void batch_norm_backward_weights(const ImageShape& shape, const Tensor& x, const Tensor& dy,
                                 const BatchStatistics& statistics, Tensor& dgamma, Tensor& dbeta) {
  std::fill(dgamma.begin(), dgamma.end(), 0.0);
  std::fill(dbeta.begin(), dbeta.end(), 0.0);
  each_element(shape, [&](std::size_t c, std::size_t i) {
    dgamma[c] += dy[i] * (x[i] - statistics.mean[c]) * statistics.inverse_deviation[c];
    dbeta[c] += dy[i];
  });
}

void batch_norm_backward_data(const ImageShape& shape, const Tensor& x, const Tensor& dy, const Tensor& gamma,
                              const BatchStatistics& statistics, Tensor& dx) {
  const double count = static_cast<double>(shape.batch * shape.pixels());
  Tensor mean_dy(at(shape.channels), 0.0), mean_dy_x(at(shape.channels), 0.0);
  batch_norm_backward_weights(shape, x, dy, statistics, mean_dy_x, mean_dy);
  each_element(shape, [&](std::size_t c, std::size_t i) {
    const double x_hat = (x[i] - statistics.mean[c]) * statistics.inverse_deviation[c];
    dx[i] += gamma[c] * statistics.inverse_deviation[c] *
             (dy[i] - mean_dy[c] / count - x_hat * mean_dy_x[c] / count);
  });
}

void max_pool_forward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& x,
                      Tensor& y, std::vector<std::int64_t>& choice) {
  choice.assign(y.size(), -1);
  Index index = 0;
  for (Index image = 0; image < out.batch * out.channels; ++image) {
    for (Index oh = 0; oh < out.height; ++oh) {
      for (Index ow = 0; ow < out.width; ++ow, ++index) {
        Index& best = choice[at(index)];
        each_tap(in, window, oh, ow, [&](Index ih, Index iw, Index, Index) {
          const Index candidate = image * in.pixels() + ih * in.width + iw;
          if (best < 0 || x[at(candidate)] > x[at(best)]) best = candidate;
        });
        y[at(index)] = x[at(best)];
      }
    }
  }
}

void avg_pool_forward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& x,
                      Tensor& y) {
  Index index = 0;
  for (Index image = 0; image < out.batch * out.channels; ++image) {
    for (Index oh = 0; oh < out.height; ++oh) {
      for (Index ow = 0; ow < out.width; ++ow, ++index) {
        double sum = 0;
        each_tap(in, window, oh, ow, [&](Index ih, Index iw, Index, Index) {
          sum += x[at(image * in.pixels() + ih * in.width + iw)];
        });
        y[at(index)] = sum / mean_divisor(in, window, oh, ow);
      }
    }
  }
}

void avg_pool_backward(const ImageShape& in, const ImageShape& out, const Window& window, const Tensor& dy,
                       Tensor& dx) {
  Index index = 0;
  for (Index image = 0; image < out.batch * out.channels; ++image) {
    for (Index oh = 0; oh < out.height; ++oh) {
      for (Index ow = 0; ow < out.width; ++ow, ++index) {
        const double share = dy[at(index)] / mean_divisor(in, window, oh, ow);
        each_tap(in, window, oh, ow, [&](Index ih, Index iw, Index, Index) {
          dx[at(image * in.pixels() + ih * in.width + iw)] += share;
        });
      }
    }
  }
}

void linear_forward(std::int64_t batch, std::int64_t in, std::int64_t out, const Tensor& x, const Tensor& w,
                    const Tensor& bias, Tensor& y) {
  for (Index n = 0; n < batch; ++n) {
    for (Index o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0.0 : bias[at(o)];
      for (Index i = 0; i < in; ++i) sum += w[at(o * in + i)] * x[at(n * in + i)];
      y[at(n * out + o)] = sum;
    }
  }
}

void linear_backward_data(std::int64_t batch, std::int64_t in, std::int64_t out, const Tensor& dy,
                          const Tensor& w, Tensor& dx) {
  for (Index n = 0; n < batch; ++n)
    for (Index o = 0; o < out; ++o)
      for (Index i = 0; i < in; ++i) dx[at(n * in + i)] += w[at(o * in + i)] * dy[at(n * out + o)];
}

void linear_backward_weights(std::int64_t batch, std::int64_t in, std::int64_t out, const Tensor& x,
                             const Tensor& dy, Tensor& dw, Tensor& dbias) {
  std::fill(dw.begin(), dw.end(), 0.0);
  std::fill(dbias.begin(), dbias.end(), 0.0);
  for (Index n = 0; n < batch; ++n) {
    for (Index o = 0; o < out; ++o) {
      const double g = dy[at(n * out + o)];
      for (Index i = 0; i < in; ++i) dw[at(o * in + i)] += g * x[at(n * in + i)];
      if (!dbias.empty()) dbias[at(o)] += g;
    }
  }
}

double softmax_cross_entropy(std::int64_t batch, std::int64_t classes, const Tensor& x,
                             const std::vector<std::int32_t>& labels, Tensor& gradient) {
  gradient.assign(x.size(), 0.0);
  double loss = 0;
  const auto ignored = std::count(labels.begin(), labels.end(), -1);
  const auto counted = static_cast<double>(std::max<Index>(1, batch - ignored));
  for (Index n = 0; n < batch; ++n) {
    if (labels[at(n)] < 0) continue;
    const double* row = x.data() + n * classes;
    const double largest = *std::max_element(row, row + classes);
    double sum = 0;
    for (Index c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
    const Index label = labels[at(n)];
    loss += std::log(sum) + largest - row[label];
    for (Index c = 0; c < classes; ++c) {
      const double probability = std::exp(row[c] - largest) / sum;
      gradient[at(n * classes + c)] = (probability - (c == label ? 1 : 0)) / counted;
    }
  }
  return loss / counted;
}

}  // namespace foretrain::device::reference

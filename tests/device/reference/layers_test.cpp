// Every backward pass against central differences of its forward pass: with L = sum of c y for fixed c, the
// gradient of L by x is what backward makes of dy = c.
#include "device/reference/layers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "sim/base/random.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using namespace foretrain::device::reference;
using foretrain::test::approx;

namespace {

Tensor random_tensor(std::int64_t count, std::uint64_t seed) {
  RandomStream stream(seed);
  Tensor values(static_cast<std::size_t>(count));
  for (double& value : values) value = stream.normal();
  return values;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Largest difference between the gradient and the central difference of loss(), element by element.
double worst(Tensor& variable, const Tensor& gradient, const std::function<double()>& loss) {
  const double h = 1e-5;
  double largest = 0;
  for (std::size_t i = 0; i < variable.size(); ++i) {
    const double kept = variable[i];
    variable[i] = kept + h;
    const double up = loss();
    variable[i] = kept - h;
    const double down = loss();
    variable[i] = kept;
    largest = std::max(largest, std::fabs((up - down) / (2 * h) - gradient[i]));
  }
  return largest;
}

Tensor zeros(const Tensor& like) {
  return Tensor(like.size(), 0.0);
}

}  // namespace

TEST_CASE("convolution: gradients of input, weight and bias are the differences of the forward pass") {
  Window plain = square_window(3, 1, 1);
  Window strided = square_window(3, 2, 1);
  Window odd;
  odd.kernel_h = 2;
  odd.kernel_w = 3;
  odd.stride_w = 2;
  odd.pad_w = 1;
  odd.dilation_h = 2;
  Window grouped = square_window(3, 1, 0, 2);
  for (const Window& window : {plain, strided, odd, grouped}) {
    ModelBuilder shapes("m", {4, 6, 5}, 1);
    const Shape output = shapes.output(shapes.conv2d("c", 0, 6, window, true));
    const ImageShape in = image_shape(2, {4, 6, 5}), out = image_shape(2, output);
    Tensor x = random_tensor(in.elements(), 1);
    Tensor w = random_tensor(6 * (4 / window.groups) * window.kernel_h * window.kernel_w, 2);
    Tensor bias = random_tensor(6, 3);
    Tensor y(static_cast<std::size_t>(out.elements()));
    const Tensor c = random_tensor(out.elements(), 4);
    const auto loss = [&] {
      conv2d_forward(in, out, window, x, w, bias, y);
      return dot(c, y);
    };
    Tensor dx = zeros(x), dw = zeros(w), dbias = zeros(bias);
    conv2d_backward_data(in, out, window, c, w, dx);
    conv2d_backward_weights(in, out, window, x, c, dw, dbias);
    CHECK(worst(x, dx, loss) < 1e-8);
    CHECK(worst(w, dw, loss) < 1e-8);
    CHECK(worst(bias, dbias, loss) < 1e-8);
  }
}

TEST_CASE("a convolution worked by hand") {
  // x = [1 2; 3 4], w = [1 10; 100 1000], no padding: 1 + 20 + 300 + 4000
  const ImageShape in = image_shape(1, {1, 2, 2}), out = image_shape(1, {1, 1, 1});
  Tensor y(1);
  conv2d_forward(in, out, square_window(2), {1, 2, 3, 4}, {1, 10, 100, 1000}, {0.5}, y);
  CHECK(y[0] == 4321.5);
}

TEST_CASE("batch norm: normalizes, moves its running statistics, and its gradients are the differences") {
  const ImageShape shape = image_shape(3, {2, 2, 2});
  Tensor x = random_tensor(shape.elements(), 1), gamma = random_tensor(2, 2), beta = random_tensor(2, 3);
  const Tensor c = random_tensor(shape.elements(), 4);
  Tensor y = zeros(x);
  BatchStatistics statistics;
  const auto loss = [&] {
    Tensor mean(2, 0.0), variance(2, 1.0);
    batch_norm_forward(shape, 1e-5, 0.1, x, gamma, beta, y, statistics, mean, variance);
    return dot(c, y);
  };
  loss();
  Tensor dx = zeros(x), dgamma = zeros(gamma), dbeta = zeros(beta);
  batch_norm_backward_data(shape, x, c, gamma, statistics, dx);
  batch_norm_backward_weights(shape, x, c, statistics, dgamma, dbeta);
  CHECK(worst(x, dx, loss) < 1e-7);
  CHECK(worst(gamma, dgamma, loss) < 1e-7);
  CHECK(worst(beta, dbeta, loss) < 1e-7);

  // x = 1, 3: mean 2, biased variance 1, unbiased 2; running mean 0.1 * 2, variance 0.9 + 0.1 * 2
  Tensor mean(1, 0.0), variance(1, 1.0), out(2);
  batch_norm_forward(image_shape(2, {1, 1, 1}), 0.0, 0.1, {1, 3}, {2}, {5}, out, statistics, mean, variance);
  CHECK(out[0] == approx(3));
  CHECK(out[1] == approx(7));
  CHECK(mean[0] == approx(0.2));
  CHECK(variance[0] == approx(1.1));
}

TEST_CASE("pools: maxima, means with and without padding, and their gradients") {
  const ImageShape in = image_shape(2, {2, 5, 5}), out = image_shape(2, {2, 3, 3});
  for (const bool counted : {true, false}) {
    Window window = square_window(3, 2, 1);
    window.count_padding = counted;
    Tensor x = random_tensor(in.elements(), 1), y(static_cast<std::size_t>(out.elements()));
    const Tensor c = random_tensor(out.elements(), 2);
    Tensor dx = zeros(x);
    avg_pool_backward(in, out, window, c, dx);
    CHECK(worst(x, dx, [&] {
            avg_pool_forward(in, out, window, x, y);
            return dot(c, y);
          }) < 1e-8);
  }
  // A 2 x 2 window at a corner with padding 1 sees one pixel of four.
  Window corner = square_window(2, 2, 1);
  Tensor y(4);
  avg_pool_forward(image_shape(1, {1, 2, 2}), image_shape(1, {1, 2, 2}), corner, {4, 8, 12, 16}, y);
  CHECK(y == Tensor{1, 2, 3, 4});
  corner.count_padding = false;
  avg_pool_forward(image_shape(1, {1, 2, 2}), image_shape(1, {1, 2, 2}), corner, {4, 8, 12, 16}, y);
  CHECK(y == Tensor{4, 8, 12, 16});

  std::vector<std::int64_t> choice;
  Tensor largest(1);
  max_pool_forward(image_shape(1, {1, 2, 2}), image_shape(1, {1, 1, 1}), square_window(2), {-4, -1, -1, -9},
                   largest, choice);
  CHECK(largest[0] == -1);
  CHECK(choice[0] == 1);
}

TEST_CASE("linear: gradients of input, weight and bias are the differences") {
  Tensor x = random_tensor(3 * 4, 1), w = random_tensor(5 * 4, 2), bias = random_tensor(5, 3), y(15);
  const Tensor c = random_tensor(15, 4);
  const auto loss = [&] {
    linear_forward(3, 4, 5, x, w, bias, y);
    return dot(c, y);
  };
  Tensor dx = zeros(x), dw = zeros(w), dbias = zeros(bias);
  linear_backward_data(3, 4, 5, c, w, dx);
  linear_backward_weights(3, 4, 5, x, c, dw, dbias);
  CHECK(worst(x, dx, loss) < 1e-8);
  CHECK(worst(w, dw, loss) < 1e-8);
  CHECK(worst(bias, dbias, loss) < 1e-8);
}

TEST_CASE("softmax cross-entropy: value, gradient, and no overflow") {
  Tensor x = random_tensor(3 * 4, 1), gradient;
  const std::vector<std::int32_t> labels = {2, 0, 3};
  softmax_cross_entropy(3, 4, x, labels, gradient);
  const Tensor kept = gradient;
  Tensor ignored;
  CHECK(worst(x, kept, [&] { return softmax_cross_entropy(3, 4, x, labels, ignored); }) < 1e-9);
  CHECK(softmax_cross_entropy(1, 2, {0, 0}, {1}, gradient) == approx(std::log(2.0)));
  CHECK(softmax_cross_entropy(1, 2, {1000, 0}, {0}, gradient) == doctest::Approx(0));
}

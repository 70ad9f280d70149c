#include "device/reference/sequence_layers.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "device/reference/indexing.hpp"

namespace foretrain::device::reference {
namespace {

// Sines in even and cosines in odd features, of wavelengths from 2 pi to 10,000 times that.
double sine_table(Index position, Index feature, Index features) {
  const double exponent = static_cast<double>(feature / 2 * 2) / static_cast<double>(features);
  const double angle = static_cast<double>(position) * std::pow(10000.0, -exponent);
  return feature % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

double scale_of(const RowShape& shape, const EmbeddingTable& table) {
  return table.scaled ? std::sqrt(static_cast<double>(shape.features)) : 1;
}

}  // namespace

RowShape row_shape(std::int64_t batch, const Shape& shape) {
  RowShape rows;
  rows.batch = batch;
  rows.features = shape.empty() ? 1 : shape.back();
  rows.positions = element_count(shape) / rows.features;
  return rows;
}

void embedding_forward(const RowShape& shape, const EmbeddingTable& table,
                       std::span<const std::int32_t> tokens, const Tensor& weight, const Tensor& positions,
                       const Tensor& segments, Tensor& y) {
  const double scale = scale_of(shape, table);
  for (Index row = 0; row < shape.rows(); ++row) {
    const Index token = tokens[at(row)], position = row % shape.positions;
    for (Index f = 0; f < shape.features; ++f) {
      double value = scale * weight[at(token * shape.features + f)];
      if (!positions.empty()) value += positions[at(position * shape.features + f)];
      if (!segments.empty()) value += segments[at(f)];
      if (table.sinusoidal) value += sine_table(position, f, shape.features);
      y[at(row * shape.features + f)] = value;
    }
  }
}

void embedding_backward_weights(const RowShape& shape, const EmbeddingTable& table,
                                std::span<const std::int32_t> tokens, const Tensor& dy, Tensor& dweight,
                                Tensor& dpositions, Tensor& dsegments) {
  for (Tensor* each : {&dweight, &dpositions, &dsegments}) std::fill(each->begin(), each->end(), 0.0);
  const double scale = scale_of(shape, table);
  for (Index row = 0; row < shape.rows(); ++row) {
    const Index token = tokens[at(row)], position = row % shape.positions;
    for (Index f = 0; f < shape.features; ++f) {
      const double g = dy[at(row * shape.features + f)];
      dweight[at(token * shape.features + f)] += scale * g;
      if (!dpositions.empty()) dpositions[at(position * shape.features + f)] += g;
      if (!dsegments.empty()) dsegments[at(f)] += g;
    }
  }
}

void row_norm_forward(const RowShape& shape, bool subtracts_mean, double epsilon, const Tensor& x,
                      const Tensor& gamma, const Tensor& beta, Tensor& y, RowStatistics& statistics) {
  statistics.mean.assign(at(shape.rows()), 0.0);
  statistics.inverse_deviation.assign(at(shape.rows()), 0.0);
  const auto count = static_cast<double>(shape.features);
  for (Index row = 0; row < shape.rows(); ++row) {
    const double* in = x.data() + row * shape.features;
    double mean = 0, squares = 0;
    if (subtracts_mean) {
      for (Index f = 0; f < shape.features; ++f) mean += in[f];
      mean /= count;
    }
    for (Index f = 0; f < shape.features; ++f) squares += (in[f] - mean) * (in[f] - mean);
    const double inverse = 1 / std::sqrt(squares / count + epsilon);
    for (Index f = 0; f < shape.features; ++f)
      y[at(row * shape.features + f)] =
          gamma[at(f)] * (in[f] - mean) * inverse + (beta.empty() ? 0 : beta[at(f)]);
    statistics.mean[at(row)] = mean;
    statistics.inverse_deviation[at(row)] = inverse;
  }
}

void row_norm_backward_weights(const RowShape& shape, const Tensor& x, const Tensor& dy,
                               const RowStatistics& statistics, Tensor& dgamma, Tensor& dbeta) {
  std::fill(dgamma.begin(), dgamma.end(), 0.0);
  std::fill(dbeta.begin(), dbeta.end(), 0.0);
  for (Index row = 0; row < shape.rows(); ++row) {
    for (Index f = 0; f < shape.features; ++f) {
      const auto element = at(row * shape.features + f);
      dgamma[at(f)] +=
          dy[element] * (x[element] - statistics.mean[at(row)]) * statistics.inverse_deviation[at(row)];
      if (!dbeta.empty()) dbeta[at(f)] += dy[element];
    }
  }
}

// With x_hat = (x - mean) / deviation and g = gamma dy: (g - mean(g) - x_hat mean(g x_hat)) / deviation,
// where the term mean(g) is there if the mean is subtracted.
void row_norm_backward_data(const RowShape& shape, bool subtracts_mean, const Tensor& x, const Tensor& dy,
                            const Tensor& gamma, const RowStatistics& statistics, Tensor& dx) {
  const auto count = static_cast<double>(shape.features);
  for (Index row = 0; row < shape.rows(); ++row) {
    const double mean = statistics.mean[at(row)], inverse = statistics.inverse_deviation[at(row)];
    double sum = 0, along = 0;
    for (Index f = 0; f < shape.features; ++f) {
      const auto element = at(row * shape.features + f);
      const double g = gamma[at(f)] * dy[element];
      sum += g;
      along += g * (x[element] - mean) * inverse;
    }
    if (!subtracts_mean) sum = 0;
    for (Index f = 0; f < shape.features; ++f) {
      const auto element = at(row * shape.features + f);
      const double normalized = (x[element] - mean) * inverse;
      dx[element] += inverse * (gamma[at(f)] * dy[element] - sum / count - normalized * along / count);
    }
  }
}

Activation gelu(double x, bool approximate) {
  if (!approximate) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return {x * below, below + x * density};
  }
  constexpr double cubic = 0.044715;
  const double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double t = std::tanh(root * (x + cubic * x * x * x));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * cubic * x * x)};
}

Activation silu(double x) {
  const double s = logistic(x);
  return {x * s, s * (1 + x * (1 - s))};
}

}  // namespace foretrain::device::reference

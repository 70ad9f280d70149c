#include "device/cpu/row_loops.hpp"

#include <cmath>

#include "device/cpu/fast_math.hpp"
#include "device/cpu/loops.hpp"
#include "device/cpu/vector_clones.hpp"

namespace foretrain::device::cpu {
namespace {

// Sums and maxima run in lanes of their own, which makes vectors of them without a change of order by the
// compiler.
constexpr std::int64_t lanes = 16;

FORETRAIN_VECTOR_CLONES float largest_of(const float* x, std::int64_t n) {
  float most[lanes];
  for (std::int64_t l = 0; l < lanes; ++l) most[l] = x[0];
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::int64_t l = 0; l < lanes; ++l) most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
  for (; i < n; ++i) most[0] = x[i] > most[0] ? x[i] : most[0];
  float all = most[0];
  for (std::int64_t l = 1; l < lanes; ++l) all = most[l] > all ? most[l] : all;
  return all;
}

FORETRAIN_VECTOR_CLONES void exponentials_of(float* y, const float* x, float largest, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp_of(x[i] - largest);
}

// In parts of 1,024, so that large vocabularies are summed well.
FORETRAIN_VECTOR_CLONES double dot(const float* a, const float* b, std::int64_t n) {
  constexpr std::int64_t part = 1024;
  double sum = 0;
  for (std::int64_t first = 0; first < n; first += part) {
    const std::int64_t last = std::min(n, first + part);
    float sums[lanes] = {};
    std::int64_t i = first;
    for (; i + lanes <= last; i += lanes)
      for (std::int64_t l = 0; l < lanes; ++l) sums[l] += a[i + l] * b[i + l];
    for (; i < last; ++i) sums[0] += a[i] * b[i];
    for (const float each : sums) sum += static_cast<double>(each);
  }
  return sum;
}

FORETRAIN_VECTOR_CLONES double sum_of(const float* a, std::int64_t n) {
  constexpr std::int64_t part = 1024;
  double sum = 0;
  for (std::int64_t first = 0; first < n; first += part) {
    const std::int64_t last = std::min(n, first + part);
    float sums[lanes] = {};
    std::int64_t i = first;
    for (; i + lanes <= last; i += lanes)
      for (std::int64_t l = 0; l < lanes; ++l) sums[l] += a[i + l];
    for (; i < last; ++i) sums[0] += a[i];
    for (const float each : sums) sum += static_cast<double>(each);
  }
  return sum;
}

FORETRAIN_VECTOR_CLONES void scale_part(float* y, float factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] *= factor;
}

FORETRAIN_VECTOR_CLONES void softmax_backward_part(float* dx, const float* dy, const float* y, float scale,
                                                   float along, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) dx[i] = scale * y[i] * (dy[i] - along);
}

FORETRAIN_VECTOR_CLONES void add_row(float* __restrict sums, const float* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

FORETRAIN_VECTOR_CLONES void add_products(float* __restrict sums, const float* __restrict x,
                                          const float* __restrict y, float weight, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += x[i] * y[i] * weight;
}

FORETRAIN_VECTOR_CLONES void multiply_part(float* y, const float* a, const float* b, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}

FORETRAIN_VECTOR_CLONES void multiply_add_part(float* y, const float* a, const float* b, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) y[i] += a[i] * b[i];
}

FORETRAIN_VECTOR_CLONES void copy_part(float* __restrict y, const float* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
}

FORETRAIN_VECTOR_CLONES void normalize(float* y, const float* x, const float* gamma, float inverse,
                                       std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) y[i] = gamma[i] * x[i] * inverse;
}

// dx = inverse (gamma dy - x inverse along), with along the mean of gamma dy x inverse.
FORETRAIN_VECTOR_CLONES void normalize_backward(float* dx, const float* dy, const float* x,
                                                const float* gamma, float inverse, std::int64_t n) {
  const float squared = inverse * inverse;
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::int64_t l = 0; l < lanes; ++l) sums[l] += gamma[i + l] * dy[i + l] * x[i + l];
  for (; i < n; ++i) sums[0] += gamma[i] * dy[i] * x[i];
  double sum = 0;
  for (const float each : sums) sum += static_cast<double>(each);
  const float along = squared * static_cast<float>(sum / static_cast<double>(n));
  FORETRAIN_NO_ALIAS
  for (i = 0; i < n; ++i) dx[i] += inverse * (gamma[i] * dy[i] - x[i] * along);
}

// Column by column, so that a sum's order does not depend on the number of threads.
template <typename Add>
void by_columns(float* sums, std::int64_t rows, std::int64_t features, bool adds, const Add& add) {
  constexpr std::int64_t width = 64;
  parallel_rows((features + width - 1) / width, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t from = first * width, count = std::min(features, last * width) - from;
    if (!adds) std::fill_n(sums + from, count, 0.0f);
    for (std::int64_t row = 0; row < rows; ++row) add(row, from, count);
  });
}

}  // namespace

ExponentialSum exponentials(float* y, const float* x, std::int64_t count) {
  const float largest = largest_of(x, count);
  exponentials_of(y, x, largest, count);
  return {largest, sum_of(y, count)};
}

void scale_by(float* y, float factor, std::int64_t count) {
  scale_part(y, factor, count);
}

void softmax_row(float* y, const float* x, std::int64_t seen, std::int64_t count) {
  const double sum = exponentials(y, x, seen).sum;
  scale_part(y, static_cast<float>(1 / sum), seen);
  std::fill(y + seen, y + count, 0.0f);
}

void softmax_backward_row(float* dx, const float* dy, const float* y, float scale, std::int64_t seen,
                          std::int64_t count) {
  softmax_backward_part(dx, dy, y, scale, static_cast<float>(dot(dy, y, seen)), seen);
  std::fill(dx + seen, dx + count, 0.0f);
}

void sum_rows(float* sums, const float* x, std::int64_t rows, std::int64_t features, bool adds) {
  by_columns(sums, rows, features, adds, [=](std::int64_t row, std::int64_t from, std::int64_t count) {
    add_row(sums + from, x + row * features + from, count);
  });
}

void sum_products(float* sums, const float* x, const float* y, const float* weights, std::int64_t rows,
                  std::int64_t features, bool adds) {
  by_columns(sums, rows, features, adds, [=](std::int64_t row, std::int64_t from, std::int64_t count) {
    const std::int64_t at = row * features + from;
    add_products(sums + from, x + at, y + at, weights[row], count);
  });
}

void copy_columns(const Columns<float>& to, const Columns<const float>& from, std::int64_t rows,
                  std::int64_t width, bool adds) {
  parallel_rows(rows, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row)
      (adds ? add_row : copy_part)(to.data + row * to.stride + to.offset,
                                   from.data + row * from.stride + from.offset, width);
  });
}

void multiply(float* y, const float* a, const float* b, bool adds, std::int64_t count) {
  parallel(count, [=](std::int64_t first, std::int64_t last) {
    (adds ? multiply_add_part : multiply_part)(y + first, a + first, b + first, last - first);
  });
}

void rms_norm(float* y, float* inverse, const float* x, const float* gamma, double epsilon, std::int64_t rows,
              std::int64_t features) {
  parallel_rows(rows, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const float* in = x + row * features;
      const double squares = dot(in, in, features) / static_cast<double>(features);
      inverse[row] = static_cast<float>(1 / std::sqrt(squares + epsilon));
      normalize(y + row * features, in, gamma, inverse[row], features);
    }
  });
}

void rms_norm_backward(float* dx, const float* dy, const float* x, const float* gamma, const float* inverse,
                       bool adds, std::int64_t rows, std::int64_t features) {
  parallel_rows(rows, [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      float* out = dx + row * features;
      if (!adds) std::fill_n(out, features, 0.0f);
      normalize_backward(out, dy + row * features, x + row * features, gamma, inverse[row], features);
    }
  });
}

}  // namespace foretrain::device::cpu

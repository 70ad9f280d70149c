// Loops over rows of features, shared among the threads of the calling stream's team.
#pragma once

#include <cstdint>

namespace foretrain::device::cpu {

// y = softmax(x) of `seen` elements, zero for the others up to `count`; y may be x. Of one row.
void softmax_row(float* y, const float* x, std::int64_t seen, std::int64_t count);
// dx = scale y (dy - sum of y dy), of one row, zero behind `seen`; dx may be dy.
void softmax_backward_row(float* dx, const float* dy, const float* y, float scale, std::int64_t seen,
                          std::int64_t count);

// y = exp(x - largest); gives the largest and the sum of y. Of one row.
struct ExponentialSum {
  float largest;
  double sum;
};
ExponentialSum exponentials(float* y, const float* x, std::int64_t count);
void scale_by(float* y, float factor, std::int64_t count);

// sums[f] = sum over rows of x[row][f], added to what is there where `adds`.
void sum_rows(float* sums, const float* x, std::int64_t rows, std::int64_t features, bool adds);
// As above, of x[row][f] y[row][f] weights[row].
void sum_products(float* sums, const float* x, const float* y, const float* weights, std::int64_t rows,
                  std::int64_t features, bool adds);

// Rows of `stride` floats, and where in them what is meant begins.
template <typename Float>
struct Columns {
  Float* data = nullptr;
  std::int64_t stride = 0, offset = 0;
};
// `width` floats of each row.
void copy_columns(const Columns<float>& to, const Columns<const float>& from, std::int64_t rows,
                  std::int64_t width, bool adds);

// y = a b, added to y where `adds`.
void multiply(float* y, const float* a, const float* b, bool adds, std::int64_t count);

// y = gamma x / sqrt(mean of squares + epsilon) (Zhang and Sennrich 2019), with 1 / that root of each row.
void rms_norm(float* y, float* inverse, const float* x, const float* gamma, double epsilon, std::int64_t rows,
              std::int64_t features);
void rms_norm_backward(float* dx, const float* dy, const float* x, const float* gamma, const float* inverse,
                       bool adds, std::int64_t rows, std::int64_t features);

}  // namespace foretrain::device::cpu

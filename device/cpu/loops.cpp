#include "device/cpu/loops.hpp"

#include <cstring>

#include "device/cpu/vector_clones.hpp"

namespace foretrain::device::cpu {
namespace {

FORETRAIN_VECTOR_CLONES void add_to_part(float* __restrict y, const float* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

FORETRAIN_VECTOR_CLONES void add_part(float* y, const float* a, const float* b, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

FORETRAIN_VECTOR_CLONES void add_relu_part(float* y, const float* a, const float* b, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) {
    const float sum = a[i] + b[i];
    y[i] = sum > 0 ? sum : 0;
  }
}

FORETRAIN_VECTOR_CLONES void relu_part(float* y, const float* x, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}

FORETRAIN_VECTOR_CLONES void relu_backward_part(float* dx, const float* dy, const float* y, std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
}

FORETRAIN_VECTOR_CLONES void relu_backward_add_part(float* dx, const float* dy, const float* y,
                                                    std::int64_t n) {
  FORETRAIN_NO_ALIAS
  for (std::int64_t i = 0; i < n; ++i) dx[i] += y[i] > 0 ? dy[i] : 0;
}

}  // namespace

void add_to(float* y, const float* x, std::int64_t count) {
  parallel(count,
           [=](std::int64_t first, std::int64_t last) { add_to_part(y + first, x + first, last - first); });
}

void add(float* y, const float* a, const float* b, bool relu, std::int64_t count) {
  parallel(count, [=](std::int64_t first, std::int64_t last) {
    (relu ? add_relu_part : add_part)(y + first, a + first, b + first, last - first);
  });
}

void relu(float* y, const float* x, std::int64_t count) {
  parallel(count,
           [=](std::int64_t first, std::int64_t last) { relu_part(y + first, x + first, last - first); });
}

void relu_backward(float* dx, const float* dy, const float* y, bool adds, std::int64_t count) {
  parallel(count, [=](std::int64_t first, std::int64_t last) {
    (adds ? relu_backward_add_part : relu_backward_part)(dx + first, dy + first, y + first, last - first);
  });
}

void copy_floats(float* y, const float* x, std::int64_t count) {
  parallel(count, [=](std::int64_t first, std::int64_t last) {
    std::memcpy(y + first, x + first, static_cast<std::size_t>(last - first) * sizeof(float));
  });
}

}  // namespace foretrain::device::cpu

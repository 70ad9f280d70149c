// Loops over floats in memory, shared among the threads of the calling stream's team.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace foretrain::device::cpu {

// Calls part(first, last) for parts of [0, count), one a thread; each begins at a multiple of 64.
template <typename Part>
void parallel(std::int64_t count, const Part& part) {
  constexpr std::int64_t line = 64, least = 4096;  // below it a second thread is not worth its start
  const std::int64_t threads = std::min<std::int64_t>(omp_get_max_threads(), count / least);
  if (threads <= 1) {
    if (count > 0) part(std::int64_t{0}, count);
    return;
  }
  const std::int64_t share = (count / threads + line - 1) / line * line;
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    const std::int64_t first = std::min(count, share * omp_get_thread_num());
    const bool is_last = omp_get_thread_num() == threads - 1;
    const std::int64_t last = is_last ? count : std::min(count, first + share);
    if (first < last) part(first, last);
  }
}

// As above over rows of some work each, where a row is worth a thread.
template <typename Part>
void parallel_rows(std::int64_t rows, const Part& part) {
  const std::int64_t threads = std::min<std::int64_t>(omp_get_max_threads(), rows);
  if (threads <= 1) {
    if (rows > 0) part(std::int64_t{0}, rows);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    const std::int64_t at = omp_get_thread_num();
    const std::int64_t first = rows * at / threads, last = rows * (at + 1) / threads;
    if (first < last) part(first, last);
  }
}

void add_to(float* y, const float* x, std::int64_t count);  // y += x
void add(float* y, const float* a, const float* b, bool relu,
         std::int64_t count);  // y = a + b, or max(it, 0)
void relu(float* y, const float* x, std::int64_t count);
// dx = dy where y > 0, else 0; added to dx where `adds`. dx may be dy.
void relu_backward(float* dx, const float* dy, const float* y, bool adds, std::int64_t count);
void copy_floats(float* y, const float* x, std::int64_t count);

}  // namespace foretrain::device::cpu

#include "app/heap.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__linux__) && defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace foretrain::app {

void prepare_heap() {
#if defined(__linux__) && defined(__GLIBC__)
  constexpr int largest_in_heap = 1 << 25, kept = 1 << 27;
  constexpr std::uintptr_t huge_page = std::uintptr_t{1} << 21;
  constexpr std::size_t room = 4 * huge_page;  // of a profile's text and what is made of it
  mallopt(M_MMAP_THRESHOLD, largest_in_heap);
  mallopt(M_TRIM_THRESHOLD, kept);
  const auto begin = reinterpret_cast<std::uintptr_t>(sbrk(0));
  void* volatile extended = std::malloc(room);  // volatile: or the pair is optimized away
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  std::free(extended);
  const std::uintptr_t first = (begin + huge_page - 1) / huge_page * huge_page;
  const std::uintptr_t last = end / huge_page * huge_page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace foretrain::app

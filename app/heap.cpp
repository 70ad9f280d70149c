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
  constexpr int kept = 1 << 30;
  constexpr std::uintptr_t huge_page = std::uintptr_t{1} << 21;
  // Of addresses, not of memory: a cluster of 65,536 GPUs takes a quarter of it. Where a limit forbids it,
  // what a profile's text takes.
  constexpr std::size_t room = 256 * huge_page, little_room = 4 * huge_page;
  mallopt(M_MMAP_MAX, 0);  // what is large stands in the heap too
  mallopt(M_TRIM_THRESHOLD, kept);
  const auto begin = reinterpret_cast<std::uintptr_t>(sbrk(0));
  void* volatile extended = std::malloc(room);  // volatile: or the pair is optimized away
  if (extended == nullptr) extended = std::malloc(little_room);
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  std::free(extended);
  const std::uintptr_t first = (begin + huge_page - 1) / huge_page * huge_page;
  const std::uintptr_t last = end / huge_page * huge_page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace foretrain::app

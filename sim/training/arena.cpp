#include "sim/training/arena.hpp"

#include <iterator>

namespace foretrain::lowering {

std::int64_t ArenaPlan::acquire(std::int64_t bytes) {
  const std::int64_t size = (bytes + alignment - 1) / alignment * alignment;
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second >= size && (best == free_.end() || range->second < best->second)) best = range;
  }
  std::int64_t offset = 0;
  if (best != free_.end()) {
    const auto [start, room] = *best;
    offset = start;
    free_.erase(best);
    if (room > size) free_[start + size] = room - size;
  } else if (!free_.empty() && std::prev(free_.end())->first + std::prev(free_.end())->second == end_) {
    offset = std::prev(free_.end())->first;  // a free tail that is too small grows
    free_.erase(std::prev(free_.end()));
    end_ = offset + size;
  } else {
    offset = end_;
    end_ += size;
  }
  used_[offset] = size;
  return offset;
}

void ArenaPlan::release(std::int64_t offset) {
  const auto used = used_.find(offset);
  if (used == used_.end()) return;
  std::int64_t start = offset, size = used->second;
  used_.erase(used);
  auto next = free_.lower_bound(start);
  if (next != free_.end() && start + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == start) {
      previous->second += size;
      return;
    }
  }
  free_[start] = size;
}

}  // namespace foretrain::lowering

// Plans where tensors with known lifetimes lie in one allocation.
#pragma once

#include <cstdint>
#include <map>

namespace foretrain::lowering {

class ArenaPlan {
 public:
  static constexpr std::int64_t alignment = 256;

  // Offset of a free range of at least `bytes`: the smallest that fits, else at the end.
  std::int64_t acquire(std::int64_t bytes);
  // Ends the life of the range that acquire() gave.
  void release(std::int64_t offset);
  // Size of an allocation that holds all.
  std::int64_t bytes() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> free_;  // offset, size
  std::map<std::int64_t, std::int64_t> used_;
  std::int64_t end_ = 0;
};

}  // namespace foretrain::lowering

#include "device/cpu/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "device/cpu/loops.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr std::int64_t alignment = 64;

}  // namespace

void Block::Free::operator()(std::byte* data) const {
  std::free(data);
}

Block::Block(std::int64_t bytes, std::shared_ptr<MemoryCount> count)
    : bytes_(bytes), count_(std::move(count)) {
  const std::int64_t whole = std::max<std::int64_t>(1, (bytes + alignment - 1) / alignment) * alignment;
  data_.reset(static_cast<std::byte*>(
      std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(whole))));
  if (!data_) throw std::bad_alloc();
  parallel(whole, [this](std::int64_t first, std::int64_t last) {
    std::memset(data_.get() + first, 0, static_cast<std::size_t>(last - first));
  });
  count_->add(bytes_);
}

void MemoryCount::add(std::int64_t bytes) {
  const std::int64_t now = held += bytes;
  std::int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
}

void Block::give_back() {
  if (count_) count_->add(-bytes_);
  count_.reset();
  data_.reset();
  bytes_ = 0;
}

Block& Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  data_ = std::move(other.data_);
  bytes_ = std::exchange(other.bytes_, 0);
  count_ = std::move(other.count_);
  return *this;
}

Block::~Block() {
  give_back();
}

}  // namespace foretrain::device::cpu

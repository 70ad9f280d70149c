// Memory of a worker, aligned for vectors and pages, first touched by the threads that will use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace foretrain::device::cpu {

// What a worker holds, and held at most.
struct MemoryCount {
  std::atomic<std::int64_t> held{0}, peak{0};
  void add(std::int64_t bytes);
};

// Zeroed. To be made on the stream whose team works on it, so that its pages lie near that team's cores.
class Block {
 public:
  Block() = default;
  Block(std::int64_t bytes, std::shared_ptr<MemoryCount> count);
  Block(Block&&) noexcept = default;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  template <typename T = float>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  void give_back();

  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
  std::shared_ptr<MemoryCount> count_;
};

}  // namespace foretrain::device::cpu

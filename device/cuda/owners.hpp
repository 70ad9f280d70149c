// Owners of CUDA objects: released when they go out of scope, movable, not copyable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "device/cuda/check.hpp"

namespace foretrain::device::cuda {

// Makes `device` the calling thread's; free where it is already.
void use_device(int device);

class Stream {
 public:
  // Of the greatest priority where `urgent`: its kernels are placed before those of other streams.
  explicit Stream(bool urgent = false) {
    int least = 0, greatest = 0;
    FORETRAIN_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    FORETRAIN_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class TimingEvent {
 public:
  TimingEvent() { FORETRAIN_CUDA(cudaEventCreate(&event_)); }
  TimingEvent(TimingEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  TimingEvent& operator=(TimingEvent&&) = delete;
  ~TimingEvent() {
    if (event_) cudaEventDestroy(event_);
  }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Bytes that one worker holds on its device, and the most it held.
struct MemoryAccount {
  std::int64_t current = 0, peak = 0;
  void add(std::int64_t bytes) { peak = std::max(peak, current += bytes); }
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(MemoryAccount& account, std::int64_t bytes) : account_(&account), bytes_(bytes) {
    if (bytes_ == 0) return;
    FORETRAIN_CUDA(cudaMalloc(&data_, static_cast<std::size_t>(bytes_)));
    account.add(bytes_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : account_(other.account_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (!data_) return;
    cudaFree(data_);
    account_->add(-bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  MemoryAccount* account_ = nullptr;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Device memory for one purpose of several users, of whom one at a time needs it. It does not move.
class SharedMemory {
 public:
  // At least so many bytes: the smallest there is, or new ones.
  std::shared_ptr<DeviceMemory> of(MemoryAccount& account, std::int64_t bytes) {
    std::shared_ptr<DeviceMemory> best;
    for (const auto& held : held_)
      if (held->bytes() >= bytes && (!best || held->bytes() < best->bytes())) best = held;
    return best ? best : held_.emplace_back(std::make_shared<DeviceMemory>(account, bytes));
  }

 private:
  std::vector<std::shared_ptr<DeviceMemory>> held_;
};

// Host memory that the device reaches; mapped at the same address.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::int64_t bytes) : bytes_(bytes) {
    if (bytes_) FORETRAIN_CUDA(cudaHostAlloc(&data_, static_cast<std::size_t>(bytes_), cudaHostAllocMapped));
  }
  PinnedMemory(PinnedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedMemory() {
    if (data_) cudaFreeHost(data_);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace foretrain::device::cuda

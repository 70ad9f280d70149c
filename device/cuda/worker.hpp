// One GPU: its streams, events, gates and copies, and the programs and communicators made on it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/backend.hpp"
#include "device/cuda/context.hpp"

namespace foretrain::device::cuda {

class CudaWorker : public Worker {
 public:
  explicit CudaWorker(int device);
  ~CudaWorker() override;

  std::unique_ptr<Program> build(const Model& model, const BuildOptions& options) override;
  std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks) override;

  std::unique_ptr<Recording> record_work(std::function<void()> work) override;

  Event make_event() override;
  void record(Event event, StreamKind stream) override;
  void wait(StreamKind stream, Event event) override;
  bool reached(Event event) override;
  double seconds_between(Event from, Event to) override;
  void synchronize() override;
  void synchronize(StreamKind stream) override;

  void close_gate(StreamKind stream, double most_seconds) override;
  void open_gate() override;
  void empty_kernel(StreamKind stream) override;
  void spin_kernel(StreamKind stream, double seconds) override;
  void copy(const std::string& direction, std::int64_t bytes, bool pinned, int peer) override;

  Buffer allocate(std::int64_t bytes) override;
  void release(Buffer buffer) override;
  void write(Buffer to, std::span<const std::byte> from) override;
  void read(Buffer from, std::span<std::byte> to) override;
  std::int64_t peak_bytes() const override { return context_.account.peak; }
  void reset_peak() override { context_.account.peak = context_.account.current; }

 private:
  cudaStream_t stream(StreamKind kind) const;
  cudaEvent_t event(Event event) const { return events_.at(static_cast<std::size_t>(event.id)); }

  Context context_;
  std::vector<TimingEvent> events_;
  PinnedMemory gate_;  // one counter: the last ticket opened
  unsigned ticket_ = 0;
  std::map<void*, DeviceMemory> buffers_;
  DeviceMemory copy_from_, copy_to_;  // ends of copy(), as large as the largest so far
  PinnedMemory copy_pinned_;
  std::vector<std::byte> copy_pageable_;
  struct Peer {
    int device = -1;
    void* data = nullptr;
    std::int64_t bytes = 0;
  } peer_;
};

}  // namespace foretrain::device::cuda

#include "device/cuda/worker.hpp"

#include <mutex>

#include "device/cuda/capture.hpp"
#include "device/cuda/communicator.hpp"
#include "device/cuda/program.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

// CUDA gives a stream its hardware channel when it is first used, and channels by turns to two units that
// feed the device. Where communication waits for a gradient in the unit of compute, each kernel of compute
// begins 0.9 us later: of their neighbours in this order none share one. All at once, for other workers of
// the device take turns as well.
void take_channels(const Context& context) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  for (const Stream* stream : {&context.communication, &context.compute, &context.copy}) {
    empty_kernel(*stream);
    FORETRAIN_CUDA(cudaStreamSynchronize(*stream));
  }
}

// A CUDA graph, captured from the compute stream.
class CudaRecording : public Recording {
 public:
  CudaRecording(int device, cudaStream_t stream, const std::function<void()>& work)
      : device_(device), stream_(stream) {
    const Capture capture(stream_, work);
    if (const std::optional<Error>& error = capture.refused()) {
      throw Error(ErrorKind::unavailable,
                  std::string("this work cannot be captured as a CUDA graph: ") + error->what());
    }
    nodes_ = static_cast<std::int64_t>(capture.nodes());
    FORETRAIN_CUDA(cudaGraphInstantiate(&executable_, capture.graph(), 0));
    FORETRAIN_CUDA(cudaGraphUpload(executable_, stream_));
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  ~CudaRecording() override {
    if (executable_) cudaGraphExecDestroy(executable_);
  }
  void issue() override {
    use_device(device_);
    FORETRAIN_CUDA(cudaGraphLaunch(executable_, stream_));
  }
  std::int64_t nodes() const override { return nodes_; }

 private:
  int device_;
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  std::int64_t nodes_ = 0;
};

}  // namespace

void use_device(int device) {
  static thread_local int current = -1;
  if (current == device) return;
  FORETRAIN_CUDA(cudaSetDevice(device));
  current = device;
}

CudaWorker::CudaWorker(int device) : context_(device), gate_(sizeof(unsigned)) {
  *gate_.as<unsigned>() = 0;
  take_channels(context_);
}

CudaWorker::~CudaWorker() {
  open_gate();
  cudaSetDevice(context_.device);
  cudaDeviceSynchronize();
  if (peer_.data) {
    cudaSetDevice(peer_.device);
    cudaFree(peer_.data);
    cudaSetDevice(context_.device);
  }
}

std::unique_ptr<Program> CudaWorker::build(const Model& model, const BuildOptions& options) {
  BuildOptions chosen = options;
  // A race between plans has another winner another day, whose sums round otherwise.
  if (options.deterministic) chosen.plan_candidates = 1;
  return std::make_unique<CudaProgram>(context_, model, chosen);
}

std::unique_ptr<Communicator> CudaWorker::join(const CommunicatorId& id, int rank, int ranks) {
  return join_communicator(context_, id, rank, ranks);
}

cudaStream_t CudaWorker::stream(StreamKind kind) const {
  switch (kind) {
    case StreamKind::communication:
      return context_.communication;
    case StreamKind::copy:
      return context_.copy;
    case StreamKind::compute:
      break;
  }
  return context_.compute;
}

std::unique_ptr<Recording> CudaWorker::record_work(std::function<void()> work) {
  use_device(context_.device);
  return std::make_unique<CudaRecording>(context_.device, context_.compute, work);
}

Event CudaWorker::make_event() {
  use_device(context_.device);
  events_.emplace_back();
  return {static_cast<int>(events_.size()) - 1};
}
void CudaWorker::record(Event at, StreamKind kind) {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaEventRecord(event(at), stream(kind)));
}
void CudaWorker::wait(StreamKind kind, Event at) {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaStreamWaitEvent(stream(kind), event(at)));
}
bool CudaWorker::reached(Event at) {
  use_device(context_.device);
  const cudaError_t status = cudaEventQuery(event(at));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // no failure: forget it
    return false;
  }
  FORETRAIN_CUDA(status);
  return true;
}
double CudaWorker::seconds_between(Event from, Event to) {
  use_device(context_.device);
  float milliseconds = 0;
  FORETRAIN_CUDA(cudaEventElapsedTime(&milliseconds, event(from), event(to)));
  return milliseconds * 1e-3;
}
void CudaWorker::synchronize() {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaDeviceSynchronize());
}
void CudaWorker::synchronize(StreamKind kind) {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaStreamSynchronize(stream(kind)));
}

void CudaWorker::close_gate(StreamKind kind, double most_seconds) {
  use_device(context_.device);
  gate_kernel(gate_.as<unsigned>(), ++ticket_, most_seconds, stream(kind));
}
void CudaWorker::open_gate() {
  *static_cast<volatile unsigned*>(gate_.as<unsigned>()) = ticket_;
}

void CudaWorker::empty_kernel(StreamKind kind) {
  use_device(context_.device);
  cuda::empty_kernel(stream(kind));
}
void CudaWorker::spin_kernel(StreamKind kind, double seconds) {
  use_device(context_.device);
  cuda::spin_kernel(seconds, stream(kind));
}

void CudaWorker::copy(const std::string& direction, std::int64_t bytes, bool pinned, int peer) {
  use_device(context_.device);
  const auto count = static_cast<std::size_t>(bytes);
  const cudaStream_t on = context_.copy;
  if (copy_from_.bytes() < bytes) copy_from_ = DeviceMemory(context_.account, bytes);
  const auto host = [&]() -> void* {
    if (pinned) {
      if (copy_pinned_.bytes() < bytes) copy_pinned_ = PinnedMemory(bytes);
      return copy_pinned_.as<void>();
    }
    if (copy_pageable_.size() < count) copy_pageable_.resize(count);
    return copy_pageable_.data();
  };
  if (direction == "host_to_device") {
    FORETRAIN_CUDA(cudaMemcpyAsync(copy_from_.data(), host(), count, cudaMemcpyHostToDevice, on));
  } else if (direction == "device_to_host") {
    FORETRAIN_CUDA(cudaMemcpyAsync(host(), copy_from_.data(), count, cudaMemcpyDeviceToHost, on));
  } else if (direction == "device_to_device") {
    if (copy_to_.bytes() < bytes) copy_to_ = DeviceMemory(context_.account, bytes);
    FORETRAIN_CUDA(cudaMemcpyAsync(copy_to_.data(), copy_from_.data(), count, cudaMemcpyDeviceToDevice, on));
  } else if (direction == "peer" && peer >= 0 && peer != context_.device) {
    if (peer_.device != peer || peer_.bytes < bytes) {
      use_device(peer);
      if (peer_.data) FORETRAIN_CUDA(cudaFree(std::exchange(peer_.data, nullptr)));
      FORETRAIN_CUDA(cudaMalloc(&peer_.data, count));
      peer_.device = peer;
      peer_.bytes = bytes;
      use_device(context_.device);
      int reachable = 0;
      FORETRAIN_CUDA(cudaDeviceCanAccessPeer(&reachable, context_.device, peer));
      if (reachable && cudaDeviceEnablePeerAccess(peer, 0) == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();
    }
    FORETRAIN_CUDA(cudaMemcpyPeerAsync(peer_.data, peer, copy_from_.data(), context_.device, count, on));
  } else {
    throw Error(ErrorKind::input, "no copy of the direction \"" + direction + "\"");
  }
}

Buffer CudaWorker::allocate(std::int64_t bytes) {
  use_device(context_.device);
  DeviceMemory memory(context_.account, bytes);
  const Buffer buffer{memory.data(), bytes};
  buffers_.emplace(buffer.data, std::move(memory));
  return buffer;
}
void CudaWorker::release(Buffer buffer) {
  use_device(context_.device);
  buffers_.erase(buffer.data);
}

// Not on the default stream: what it has copied from pageable memory may still be on its way when it returns.
void CudaWorker::write(Buffer to, std::span<const std::byte> from) {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaMemcpyAsync(to.data, from.data(), from.size(), cudaMemcpyHostToDevice, context_.copy));
  FORETRAIN_CUDA(cudaStreamSynchronize(context_.copy));
}
void CudaWorker::read(Buffer from, std::span<std::byte> to) {
  use_device(context_.device);
  FORETRAIN_CUDA(cudaMemcpyAsync(to.data(), from.data, to.size(), cudaMemcpyDeviceToHost, context_.copy));
  FORETRAIN_CUDA(cudaStreamSynchronize(context_.copy));
}

}  // namespace foretrain::device::cuda

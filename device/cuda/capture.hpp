// Work recorded as a CUDA graph.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "device/cuda/check.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::cuda {

// What work() enqueues on the stream, as a graph; none of it runs. Other threads may go on as they like
// meanwhile.
class Capture {
 public:
  template <typename Work>
  Capture(cudaStream_t stream, const Work& work) {
    FORETRAIN_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
      work();
    } catch (const Error& error) {
      refused_ = error;
      cudaStreamEndCapture(stream, &graph_);
      cudaGetLastError();
      return;
    }
    FORETRAIN_CUDA(cudaStreamEndCapture(stream, &graph_));
    FORETRAIN_CUDA(cudaGraphGetNodes(graph_, nullptr, &nodes_));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (graph_) cudaGraphDestroy(graph_);
  }

  // What work() threw: it cannot be recorded.
  const std::optional<Error>& refused() const { return refused_; }
  cudaGraph_t graph() const { return graph_; }
  std::size_t nodes() const { return nodes_; }

 private:
  std::optional<Error> refused_;
  cudaGraph_t graph_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace foretrain::device::cuda

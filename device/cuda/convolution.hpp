// 2-D convolutions by cuDNN: channels-last tensors, the fastest of the heuristics' best few plans, timed on
// the device and remembered for the process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "device/cuda/cudnn.hpp"
#include "device/cuda/owners.hpp"
#include "sim/training/model.hpp"

namespace foretrain::device::cuda {

enum class ConvolutionPass {
  forward,
  forward_bias,       // y = conv(x) + bias
  forward_bias_relu,  // and its ReLU
  backward_data,
  backward_weights
};

struct ConvolutionProblem {
  std::int64_t batch, in_channels, in_h, in_w, out_channels, out_h, out_w;
  Window window;
  Scalar type;          // of x, y, w and their gradients
  Scalar weights_type;  // of the weights' gradient as it is written
  bool tf32 = false;    // where type is f32
  bool deterministic = false;
  int candidates = 3;
  std::string key(ConvolutionPass pass) const;
};

// Tensors of one pass: input and output as the pass reads and writes them. forward: x, w -> y; backward_data:
// dy, w -> dx; backward_weights: x, dy -> dw.
struct ConvolutionTensors {
  void *first, *second, *result;
  void* bias = nullptr;  // fp32, forward_bias and forward_bias_relu
};

// Workspace shared by all calls of a stream; grows during the search and is at its final size afterwards.
class Workspace {
 public:
  explicit Workspace(MemoryAccount& account) : account_(account) {}
  void* reserve(std::int64_t bytes) {
    if (bytes > memory_.bytes()) {
      memory_ = DeviceMemory();
      memory_ = DeviceMemory(account_, bytes);
    }
    return memory_.data();
  }
  void clear() { memory_ = DeviceMemory(); }
  std::int64_t bytes() const { return memory_.bytes(); }

 private:
  MemoryAccount& account_;
  DeviceMemory memory_;
};

// One pass of one convolution, ready to run.
class Convolution {
 public:
  Convolution(std::shared_ptr<const Plan> plan, ConvolutionPass pass, const ConvolutionTensors& tensors)
      : plan_(std::move(plan)), pass_(pass), tensors_(tensors) {}
  // After the workspace has its final place.
  void bind(void* workspace);
  std::int64_t workspace() const { return plan_->workspace; }
  void run(cudnnHandle_t handle) const { FORETRAIN_CUDNN(cudnnBackendExecute(handle, plan_->plan, *pack_)); }

 private:
  std::shared_ptr<const Plan> plan_;
  ConvolutionPass pass_;
  ConvolutionTensors tensors_;
  std::optional<Descriptor> pack_;
};

struct TimedPlan {
  std::shared_ptr<const Plan> plan;  // null where cuDNN has no engine for the problem
  double seconds = 0;                // the shortest of a few runs
};

// The plans of one worker, by problem and pass.
class PlanCache {
 public:
  static constexpr std::int64_t workspace_limit = std::int64_t{1} << 30;

  PlanCache(cudnnHandle_t handle, cudaStream_t stream) : handle_(handle), stream_(stream) {}
  // Times the candidates on the tensors given (whose contents the result's tensor loses) unless the plan is
  // known.
  TimedPlan find(const ConvolutionProblem& problem, ConvolutionPass pass, const ConvolutionTensors& tensors,
                 Workspace& workspace);
  double seconds_searched() const { return seconds_; }

 private:
  cudnnHandle_t handle_;
  cudaStream_t stream_;
  std::map<std::string, TimedPlan> plans_;
  double seconds_ = 0;
};

}  // namespace foretrain::device::cuda

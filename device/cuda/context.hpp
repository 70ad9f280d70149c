// What the programs of one worker share: its device, streams, library handles and the plans found so far.
#pragma once

#include <map>
#include <string>

#include "device/cuda/attention_graph.hpp"
#include "device/cuda/convolution.hpp"
#include "device/cuda/matmul.hpp"
#include "device/cuda/owners.hpp"

namespace foretrain::device::cuda {

struct Context {
  explicit Context(int ordinal)
      : device((use_device(ordinal), ordinal)), cudnn(compute), plans(cudnn, compute) {}

  int device;
  MemoryAccount account;
  Stream compute;
  Stream communication{true};
  Stream copy;
  CudnnHandle cudnn;
  CublasHandle cublas;
  PlanCache plans;
  std::map<std::string, cublasLtMatmulHeuristicResult_t> matmuls;
  AttentionPlanCache attentions;
};

}  // namespace foretrain::device::cuda

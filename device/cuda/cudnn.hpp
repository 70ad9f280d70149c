// Owners over cuDNN's C graph API: a handle, a descriptor, and the few graphs that we build from them.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda/check_libraries.hpp"
#include "device/cuda/kernels.hpp"

namespace foretrain::device::cuda {

class CudnnHandle {
 public:
  explicit CudnnHandle(cudaStream_t stream) {
    FORETRAIN_CUDNN(cudnnCreate(&handle_));
    FORETRAIN_CUDNN(cudnnSetStream(handle_, stream));
  }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  ~CudnnHandle() { cudnnDestroy(handle_); }
  operator cudnnHandle_t() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    FORETRAIN_CUDNN(cudnnBackendCreateDescriptor(type, &descriptor_));
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_) cudnnBackendDestroyDescriptor(descriptor_);
  }
  operator cudnnBackendDescriptor_t() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values) {
    FORETRAIN_CUDNN(cudnnBackendSetAttribute(descriptor_, name, type, count, values));
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
  void set(cudnnBackendAttributeName_t name, float value) { set(name, CUDNN_TYPE_FLOAT, 1, &value); }
  void set(cudnnBackendAttributeName_t name, bool value) { set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void finalize() { FORETRAIN_CUDNN(cudnnBackendFinalize(descriptor_)); }
  // False where cuDNN does not support what is described.
  bool try_finalize() { return cudnnBackendFinalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

cudnnDataType_t cudnn_type(Scalar type);

struct TensorKind {
  bool is_virtual = false;  // between two operations: has no place in memory
  bool by_value = false;    // one number, read on the host
};
Descriptor tensor_descriptor(std::int64_t id, cudnnDataType_t type,
                             const std::vector<std::int64_t>& dimensions,
                             const std::vector<std::int64_t>& strides, TensorKind kind = {});

// axis: of GEN_INDEX; condition: of BINARY_SELECT. b and condition may be null.
Descriptor pointwise_operation(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
                               const Descriptor& y, const Descriptor* condition = nullptr, int axis = -1,
                               cudnnDataType_t precision = CUDNN_DATA_FLOAT);

// A finalized plan of one engine, with the workspace it needs.
struct Plan {
  Descriptor plan, config;
  std::int64_t workspace = 0;
};

// What a plan may be made of.
struct PlanLimits {
  int candidates = 3;
  std::int64_t workspace = 0;
  bool deterministic = false;
  bool tensor_cores = true;  // false: fp32 without TF32
};

// Finalized plans for a graph of operations, those that cuDNN's heuristics expect to be the fastest first
// (mode A, then B, then the fallback). Empty where no engine supports the graph.
std::vector<Plan> candidate_plans(cudnnHandle_t handle, const std::vector<const Descriptor*>& operations,
                                  const PlanLimits& limits);

// Pointers for the tensors of a plan, by their unique ids.
Descriptor variant_pack(const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers,
                        void* workspace);

}  // namespace foretrain::device::cuda

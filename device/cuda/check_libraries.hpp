// The macros of check.hpp for cuDNN, cuBLASLt and NCCL.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>

#include <string>

#include "device/cuda/check.hpp"

namespace foretrain::device::cuda {

inline void check_cudnn(cudnnStatus_t status, const char* call, const char* file, int line) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw_failed_call("cuDNN", cudnnGetErrorString(status), call, file, line,
                      status == CUDNN_STATUS_ALLOC_FAILED);
  }
}
inline void check_cublas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw_failed_call("cuBLASLt", cublasLtGetStatusString(status), call, file, line,
                      status == CUBLAS_STATUS_ALLOC_FAILED);
  }
}
// A non-blocking communicator answers ncclInProgress; the caller waits for it.
inline void check_nccl(ncclResult_t status, const char* call, const char* file, int line) {
  if (status != ncclSuccess && status != ncclInProgress) {
    std::string what = ncclGetErrorString(status);
    if (const char* last = ncclGetLastError(nullptr); last && *last) what += std::string(" (") + last + ')';
    throw_failed_call("NCCL", what.c_str(), call, file, line);
  }
}

}  // namespace foretrain::device::cuda

#define FORETRAIN_CUDNN(call) ::foretrain::device::cuda::check_cudnn((call), #call, __FILE__, __LINE__)
#define FORETRAIN_CUBLAS(call) ::foretrain::device::cuda::check_cublas((call), #call, __FILE__, __LINE__)
#define FORETRAIN_NCCL(call) ::foretrain::device::cuda::check_nccl((call), #call, __FILE__, __LINE__)

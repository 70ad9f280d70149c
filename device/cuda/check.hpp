// One macro an API: calls, and throws foretrain::Error with the call, its file and line and the library's
// words.
#pragma once

#include <cuda_runtime_api.h>

namespace foretrain::device::cuda {

[[noreturn]] void throw_failed_call(const char* library, const char* what, const char* call, const char* file,
                                    int line, bool out_of_memory = false);

inline void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status != cudaSuccess) {
    cudaGetLastError();  // reported here: a later check must not find it again
    throw_failed_call("CUDA", cudaGetErrorString(status), call, file, line,
                      status == cudaErrorMemoryAllocation);
  }
}

}  // namespace foretrain::device::cuda

#define FORETRAIN_CUDA(call) ::foretrain::device::cuda::check_cuda((call), #call, __FILE__, __LINE__)

// After a kernel launch.
#define FORETRAIN_LAUNCHED() FORETRAIN_CUDA(cudaGetLastError())

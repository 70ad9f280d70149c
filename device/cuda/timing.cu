// Kernels without work, for the clock: empty, spinning for a time, and the gate that holds a stream.
#include "device/cuda/check.hpp"
#include "device/cuda/kernels.hpp"

namespace foretrain::device::cuda {
namespace {

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void nothing() {}

__global__ void spin(uint64_t duration) {
  const uint64_t start = nanoseconds();
  while (nanoseconds() - start < duration) {
  }
}

__global__ void gate(const volatile unsigned* opened, unsigned ticket, uint64_t limit) {
  const uint64_t start = nanoseconds();
  while (static_cast<int>(*opened - ticket) < 0 && nanoseconds() - start < limit) {
  }
}

}  // namespace

void empty_kernel(cudaStream_t stream) {
  nothing<<<1, 1, 0, stream>>>();
  FORETRAIN_LAUNCHED();
}
void spin_kernel(double seconds, cudaStream_t stream) {
  spin<<<1, 1, 0, stream>>>(static_cast<uint64_t>(seconds * 1e9));
  FORETRAIN_LAUNCHED();
}
void gate_kernel(const volatile unsigned* opened, unsigned ticket, double limit, cudaStream_t stream) {
  gate<<<1, 1, 0, stream>>>(opened, ticket, static_cast<uint64_t>(limit * 1e9));
  FORETRAIN_LAUNCHED();
}

}  // namespace foretrain::device::cuda

// The members of a Machine in profiles and run records, and the words of a precision, for json_archive.hpp.
#pragma once

#include <array>

#include "sim/training/profile.hpp"

namespace foretrain {

inline std::array<Precision, 4> all_values(Precision) {
  return {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};
}

template <typename Archive>
void describe(Archive& a, Machine& m) {
  a.optional("identity", m.identity);
  a.optional("gpu", m.gpu);
  a.optional("compute_capability", m.compute_capability);
  a.optional("gpus", m.gpus);
  a.optional("multiprocessors", m.multiprocessors);
  a.optional("memory_bytes", m.memory_bytes);
  a.optional("driver", m.driver);
  a.optional("cuda_driver", m.cuda_driver);
  a.optional("cuda_runtime", m.cuda_runtime);
  a.optional("cudnn", m.cudnn);
  a.optional("cublas", m.cublas);
  a.optional("nccl", m.nccl);
  a.optional("processor", m.processor);
  a.optional("cores", m.cores);
  a.optional("virtual_machine", m.virtual_machine);
  a.optional("kernel", m.kernel);
  a.optional("link", m.link);
  a.optional("nvls", m.nvls);
  a.optional("environment", m.environment);
  a.optional("clock_before_hz", m.clock_before_hz);
  a.optional("clock_after_hz", m.clock_after_hz);
  a.optional("clock_max_hz", m.clock_max_hz);
  a.optional("throttled", m.throttled);
  a.optional("throttle_reason", m.throttle_reason);
  a.optional("temperature_before_C", m.temperature_before);
  a.optional("temperature_after_C", m.temperature_after);
}

}  // namespace foretrain

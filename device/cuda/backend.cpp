// The module's entry: which GPUs are there, and what machine this is.
#include "device/backend.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>

#include "device/cuda/check_libraries.hpp"
#include "device/cuda/communicator.hpp"
#include "device/cuda/nvml.hpp"
#include "device/cuda/worker.hpp"
#include "device/module_problem.hpp"
#include "sim/base/host_identity.hpp"

namespace foretrain::device::cuda {
namespace {

std::string dotted(int version, int major, int minor) {
  return std::to_string(version / major) + '.' + std::to_string(version % major / minor);
}

std::string bus_id_of(int device) {
  std::array<char, 32> text{};
  FORETRAIN_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device));
  return text.data();
}

// Model name of the processor, and whether a hypervisor is under it.
void read_processor(Machine& machine) {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.starts_with("model name") && machine.processor.empty()) {
      machine.processor = line.substr(line.find(':') + 2);
    }
    if (line.starts_with("flags")) {
      machine.virtual_machine = line.find(" hypervisor") != std::string::npos;
      return;
    }
  }
}

void read_environment(Machine& machine) {
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("NCCL_") && !text.starts_with("CUDA_") && !text.starts_with("CUDNN_") &&
        !text.starts_with("CUBLAS") && !text.starts_with("NVIDIA_TF32")) {
      continue;
    }
    const std::size_t equals = text.find('=');
    machine.environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
}

class CudaBackend : public Backend {
 public:
  std::string name() const override { return "cuda"; }

  int device_count() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();  // no driver, no device: none
    return 0;
  }

  Machine machine() override {
    Machine machine;
    machine.identity = host_identity();
    machine.gpus = device_count();
    if (machine.gpus > 0) read_gpu(machine);
    int version = 0;
    FORETRAIN_CUDA(cudaRuntimeGetVersion(&version));
    machine.cuda_runtime = dotted(version, 1000, 10);
    const auto cudnn = static_cast<int>(cudnnGetVersion());
    machine.cudnn = dotted(cudnn, 10000, 100) + '.' + std::to_string(cudnn % 100);
    const auto cublas = static_cast<int>(cublasLtGetVersion());
    machine.cublas = dotted(cublas, 10000, 100) + '.' + std::to_string(cublas % 100);
    FORETRAIN_NCCL(ncclGetVersion(&version));
    machine.nccl = dotted(version, 10000, 100) + '.' + std::to_string(version % 100);
    machine.cores = static_cast<int>(std::thread::hardware_concurrency());
    read_processor(machine);
    utsname system{};
    if (uname(&system) == 0) machine.kernel = system.release;
    read_environment(machine);
    // On by default where there is an NVSwitch; NCCL has no call that tells.
    const auto nvls = machine.environment.find("NCCL_NVLS_ENABLE");
    machine.nvls = machine.gpus > 1 && (nvls == machine.environment.end() || nvls->second != "0");
    return machine;
  }

  Clocks clocks(int device) override { return read_clocks(bus_id_of(device)); }
  std::unique_ptr<Worker> make_worker(int device) override { return std::make_unique<CudaWorker>(device); }
  CommunicatorId make_communicator_id() override { return cuda::make_communicator_id(); }
  void log_choices() override { cuda::log_choices(); }

 private:
  static void read_gpu(Machine& machine) {
    cudaDeviceProp properties{};
    FORETRAIN_CUDA(cudaGetDeviceProperties(&properties, 0));
    machine.gpu = properties.name;
    machine.compute_capability = std::to_string(properties.major) + '.' + std::to_string(properties.minor);
    machine.multiprocessors = properties.multiProcessorCount;
    machine.memory_bytes = static_cast<double>(properties.totalGlobalMem);
    int version = 0;
    FORETRAIN_CUDA(cudaDriverGetVersion(&version));
    machine.cuda_driver = dotted(version, 1000, 10);
    machine.driver = driver_version();
    const int links = active_nvlinks(bus_id_of(0));
    if (machine.gpus > 1) machine.link = links > 0 ? "NV" + std::to_string(links) : "PCIe";
    const Clocks clocks = read_clocks(bus_id_of(0));
    machine.clock_before_hz = machine.clock_after_hz = clocks.sm_hz;
    machine.clock_max_hz = clocks.sm_max_hz;
    machine.temperature_before = machine.temperature_after = clocks.temperature;
    machine.throttled = clocks.throttled;
    machine.throttle_reason = clocks.throttle_reason;
  }
};

}  // namespace
}  // namespace foretrain::device::cuda

extern "C" __attribute__((visibility("default"))) foretrain::device::Backend* foretrain_backend(
    int wanted_abi) {
  static foretrain::device::cuda::CudaBackend backend;
  return wanted_abi == foretrain::device::Backend::abi ? &backend : nullptr;
}

// As "CUDA driver version is insufficient for CUDA runtime version".
extern "C" __attribute__((visibility("default"))) const char* foretrain_backend_problem() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

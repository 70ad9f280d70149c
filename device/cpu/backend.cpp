#include "device/cpu/backend.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>

#include "device/cpu/communicator.hpp"
#include "device/cpu/cores.hpp"
#include "device/cpu/onednn.hpp"
#include "device/cpu/worker.hpp"
#include "sim/base/host_identity.hpp"

namespace foretrain::device::cpu {
namespace {

class CpuBackend : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  // As many workers as there are teams of cores.
  int device_count() override { return static_cast<int>(cores_.size()) / threads(); }

  Machine machine() override {
    Machine machine;
    machine.identity = host_identity();
    machine.processor = processor_name();
    machine.gpu = machine.processor + ", " + std::to_string(threads()) +
                  (threads() == 1 ? " thread a worker" : " threads a worker");
    machine.gpus = device_count();
    machine.multiprocessors = threads();
    machine.memory_bytes = memory_bytes();
    machine.cores = static_cast<int>(cores_.size());
    const dnnl_version_t* version = dnnl::version();
    machine.cudnn = "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                    std::to_string(version->patch);
    utsname system{};
    if (uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release;
    return machine;
  }

  Clocks clocks(int device) override {
    Clocks clocks;
    clocks.sm_hz = clock_hz(cores_of(device)[0]);
    return clocks;
  }

  std::unique_ptr<Worker> make_worker(int device) override {
    if (device < 0 || device >= device_count())
      throw Error(ErrorKind::unavailable, "there are " + std::to_string(cores_.size()) +
                                              " cores: no worker " + std::to_string(device) + " of " +
                                              std::to_string(threads()) + " threads has its own");
    return cpu::make_worker(cores_of(device), cores_);
  }

  CommunicatorId make_communicator_id() override { return cpu::make_communicator_id(); }

 private:
  std::vector<int> cores_of(int device) const {
    const auto first = cores_.begin() + device * threads();
    return {first, first + threads()};
  }

  // Of a worker, as the program or the user says.
  int threads() const {
    const char* wanted = std::getenv("FORETRAIN_THREADS");
    return std::clamp(wanted != nullptr ? std::atoi(wanted) : 1, 1, static_cast<int>(cores_.size()));
  }

  std::vector<int> cores_ = usable_cores();
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace foretrain::device::cpu

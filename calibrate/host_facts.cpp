#include "calibrate/host_facts.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

namespace foretrain::calibrate {
namespace {

// "model name", and whether the flags hold "hypervisor" (set by CPUID leaf 1 for guests of a virtual
// machine).
void read_processor(Machine& machine) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const bool is_name = line.starts_with("model name");
    const bool is_flags = line.starts_with("flags");
    if (is_name && machine.processor.empty() && colon + 2 <= line.size())
      machine.processor = line.substr(colon + 2);
    if (is_flags && (line + ' ').find(" hypervisor ") != std::string::npos) machine.virtual_machine = true;
    if (!machine.processor.empty() && is_flags) return;
  }
}

bool belongs(const char* name) {
  for (const char* prefix : {"NCCL_", "CUDA_", "CUDNN_"})
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  return false;
}

}  // namespace

void add_host_facts(Machine& machine) {
  read_processor(machine);
  if (machine.cores == 0) machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  if (machine.kernel.empty()) {
    utsname system{};
    if (::uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release;
  }
  for (char** entry = environ; *entry; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals && belongs(*entry))
      machine.environment.try_emplace(std::string(*entry, static_cast<std::size_t>(equals - *entry)),
                                      equals + 1);
  }
}

std::string network_of_link(const std::string& link) {
  if (link.empty()) return "local";
  return link.starts_with("NV") ? "nvlink" : "pcie";
}

}  // namespace foretrain::calibrate

#include "device/cpu/cores.hpp"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace foretrain::device::cpu {
namespace {

void set_affinity(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  // Where it is refused threads run where the kernel likes.
  sched_setaffinity(0, sizeof set, &set);
}

// The value of the n-th line of /proc/cpuinfo that begins with `name`; empty where there is none.
std::string processor_fact(const std::string& name, int n) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name) || n-- > 0) continue;
    const std::size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

void pin_team(const std::vector<int>& cores) {
  const int count = static_cast<int>(cores.size());
  omp_set_dynamic(0);
  omp_set_num_threads(count);
#pragma omp parallel num_threads(count)
  set_affinity({cores[static_cast<std::size_t>(omp_get_thread_num())]});
}

void let_float(const std::vector<int>& cores) {
  set_affinity(cores);
}

std::string processor_name() {
  const std::string name = processor_fact("model name", 0);
  return name.empty() ? "processor" : name;
}

double clock_hz(int core) {
  return std::strtod(processor_fact("cpu MHz", core).c_str(), nullptr) * 1e6;
}

double memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace foretrain::device::cpu

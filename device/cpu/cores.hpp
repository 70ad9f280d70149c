// The processor's cores that this process may use, and threads on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace foretrain::device::cpu {

// Of this process's affinity mask, ascending.
std::vector<int> usable_cores();

// The calling thread, and the OpenMP threads that it will have from now on, one on each of these cores.
void pin_team(const std::vector<int>& cores);
// The calling thread on any of these.
void let_float(const std::vector<int>& cores);

std::string processor_name();
double clock_hz(int core);  // as the kernel tells it now; 0 where it does not
double memory_bytes();

}  // namespace foretrain::device::cpu

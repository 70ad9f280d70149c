// NVML, opened at run time (the toolkit may have no nvml.h): clocks, throttling, temperature, power, links.
#pragma once

#include <string>

#include "device/backend.hpp"

namespace foretrain::device::cuda {

// All return zeros or empty text where NVML does not answer. bus_id: as cudaDeviceGetPCIBusId gives it.
Clocks read_clocks(const std::string& bus_id);
std::string driver_version();
int active_nvlinks(const std::string& bus_id);

}  // namespace foretrain::device::cuda

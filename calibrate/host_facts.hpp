// What stands behind the times besides the device: processor, kernel, virtual machine, environment.
#pragma once

#include <string>

#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

// Fills what the backend has left empty.
void add_host_facts(Machine& machine);

// "nvlink" for links that nvidia-smi calls NV..., "pcie" for others; "local" where devices have no link.
std::string network_of_link(const std::string& link);

}  // namespace foretrain::calibrate

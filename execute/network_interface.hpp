// NCCL_SOCKET_IFNAME names the interfaces that processes meet over; a name that is wrong is found before NCCL
// waits for it.
#pragma once

#include <filesystem>

#include "device/launch_environment.hpp"

namespace foretrain {

// Throws Error (input) that names the rank where the variable is set and fits no interface of this machine.
// NCCL's rules: names are beginnings unless "=" stands before them, "^" excludes those that follow.
void check_network_interface(const Environment& environment, int rank,
                             const std::filesystem::path& interfaces = "/sys/class/net");

}  // namespace foretrain

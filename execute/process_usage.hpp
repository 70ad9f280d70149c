// What this process and its children use, and what the node's network interfaces have carried, as the system
// counts it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace foretrain {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system time, of the process and its living and awaited children
  double resident_bytes = 0;
  int processes = 0;
};
// `proc` is /proc; another folder in tests.
ProcessUsage process_usage(const std::filesystem::path& proc = "/proc");

struct NetworkBytes {
  double sent = 0, received = 0;  // since the interfaces came up
};
// All interfaces but the loopback; `net` is /sys/class/net.
NetworkBytes network_bytes(const std::filesystem::path& net = "/sys/class/net");

}  // namespace foretrain

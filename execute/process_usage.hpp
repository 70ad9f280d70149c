// What this process and its children, and others, use, and what the node's network interfaces have carried,
// as the system counts it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace foretrain {

struct ProcessUsage {
  double cpu_seconds = 0;  // user and system time, of the process and its living and awaited children
  double resident_bytes = 0;
  int processes = 0;
};
// And of `others`, by their numbers; each process counts once. `proc` is /proc; another folder in tests.
ProcessUsage process_usage(const std::vector<int>& others = {}, const std::filesystem::path& proc = "/proc");

struct NetworkBytes {
  double sent = 0, received = 0;  // since the interfaces came up
};
// All interfaces but the loopback; `net` is /sys/class/net.
NetworkBytes network_bytes(const std::filesystem::path& net = "/sys/class/net");

}  // namespace foretrain

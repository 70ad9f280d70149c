#include "execute/process_usage.hpp"

#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace foretrain {
namespace {

// The children of all threads of a process.
void add_children(const std::filesystem::path& process, std::vector<std::string>& to) {
  std::error_code gone;
  for (std::filesystem::directory_iterator task(process / "task", gone), end; !gone && task != end;
       task.increment(gone)) {
    std::ifstream list(task->path() / "children");
    std::string child;
    while (list >> child) to.push_back(child);
  }
}

// proc(5): after the name in parentheses, fields 14 to 17 are user and system time, own and of awaited
// children, in clock ticks.
double cpu_seconds(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double ticks = 0;
  for (int field = 14; field <= 17; ++field) {
    double value = 0;
    fields >> value;
    ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double resident_bytes(const std::filesystem::path& process) {
  std::ifstream file(process / "statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  double value = 0;
  file >> value;
  return value;
}

}  // namespace

ProcessUsage process_usage(const std::vector<int>& others, const std::filesystem::path& proc) {
  ProcessUsage usage;
  std::vector<std::string> left = {"self"};
  std::error_code unknown;
  std::set<std::string> counted = {std::filesystem::read_symlink(proc / "self", unknown).string()};
  for (const int other : others) {
    if (counted.insert(std::to_string(other)).second) left.push_back(std::to_string(other));
  }
  constexpr int most = 1000;
  while (!left.empty() && usage.processes < most) {
    const std::filesystem::path process = proc / left.back();
    left.pop_back();
    usage.cpu_seconds += cpu_seconds(process);
    usage.resident_bytes += resident_bytes(process);
    ++usage.processes;
    std::vector<std::string> children;
    add_children(process, children);
    for (std::string& child : children) {
      if (counted.insert(child).second) left.push_back(std::move(child));
    }
  }
  return usage;
}

NetworkBytes network_bytes(const std::filesystem::path& net) {
  NetworkBytes bytes;
  std::error_code gone;
  for (std::filesystem::directory_iterator at(net, gone), end; !gone && at != end; at.increment(gone)) {
    if (at->path().filename() == "lo") continue;
    bytes.sent += number_in(at->path() / "statistics" / "tx_bytes");
    bytes.received += number_in(at->path() / "statistics" / "rx_bytes");
  }
  return bytes;
}

}  // namespace foretrain

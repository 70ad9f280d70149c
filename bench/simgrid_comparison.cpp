// The same flows over the same links in ours and in SimGrid, one after the other in processes of their own:
// processor time, memory, and how far the times at which flows end lie apart. Nothing is bundled: every flow
// is its own. Without arguments: the cases that take SimGrid some seconds; `--all` adds those that take it
// minutes. `--only TEXT`: those (of all) whose name holds the text; `--ours` leaves SimGrid out; `--lazy` and
// `--full` leave out SimGrid's other update.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "tests/simgrid/peer.hpp"

using namespace foretrain;

namespace {

struct Run {
  std::vector<double> ends;
  double seconds = 0;  // processor time
  double mebibytes = 0;
};

// Runs a function in a process of its own, which leaves its answer in shared memory.
Run in_child(std::size_t count, const std::function<std::vector<double>()>& ask) {
  const std::size_t size = std::max<std::size_t>(1, count) * sizeof(double);
  void* shared = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<double> ends = ask();
    std::memcpy(shared, ends.data(), ends.size() * sizeof(double));
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "a run ended with status %d\n", status);
    std::exit(1);
  }
  Run run;
  const auto* ends = static_cast<const double*>(shared);
  run.ends.assign(ends, ends + count);
  munmap(shared, size);
  run.seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  run.mebibytes = static_cast<double>(usage.ru_maxrss) / 1024;
  return run;
}

std::string_view only;
bool is_asked(const std::string& name) {
  return name.find(only) != std::string::npos;
}
bool with_peer = true, with_lazy = true, with_full = true;

// Prints a line; false where ours misses the ratio asked for, the memory or SimGrid's times.
bool compare(const std::string& name, double flows, std::size_t count, double at_least,
             const std::function<std::vector<double>()>& own,
             const std::function<std::vector<double>(PeerUpdate)>& peer) {
  if (!is_asked(name)) return true;
  const Run ours = in_child(count, own);
  if (!with_peer) {
    fmt::print("{:42} {:>9.0f} {:>8.3f} {:>34} {:>5.0f}\n", name, flows, ours.seconds, "", ours.mebibytes);
    return true;
  }
  const Run lazy = with_lazy ? in_child(count, [&] { return peer(PeerUpdate::lazy); }) : Run();
  const Run full = with_full ? in_child(count, [&] { return peer(PeerUpdate::full); }) : Run();
  const std::vector<double>& ends = with_full ? full.ends : lazy.ends;
  double worst = 0;
  for (std::size_t f = 0; f < count; ++f) worst = std::max(worst, std::abs(ours.ends[f] / ends[f] - 1));
  const double ratio = (with_lazy ? lazy : full).seconds / ours.seconds;
  const bool holds = ratio >= at_least && worst < 1e-3 && ours.mebibytes <= 256;
  fmt::print("{:42} {:>9.0f} {:>8.3f} {:>8.2f} {:>8.2f} {:>7.1f} {:>5.0f} {:>5.0f} {:>8.0e}  {}\n", name,
             flows, ours.seconds, lazy.seconds, full.seconds, ratio, at_least, ours.mebibytes, worst,
             holds ? "holds" : "MISSED");
  std::fflush(stdout);
  return holds;
}

bool ring(int hosts) {
  const Topology topology = peer_topology(PeerShape::star, hosts, 10, 1);
  const double bytes = 1e6 * hosts;
  return compare(
      fmt::format("ring all-reduce step by step, {} hosts", hosts), 2.0 * hosts * (hosts - 1), 1, 15,
      [&] { return std::vector<double>{own_ring(topology, bytes)}; },
      [&](PeerUpdate update) { return std::vector<double>{simgrid_ring(topology, bytes, update)}; });
}

bool at_once(const std::string& name, PeerShape shape, int hosts, const std::vector<PeerFlow>& flows) {
  const Topology topology = peer_topology(shape, hosts, 10, 1);
  return compare(
      name, static_cast<double>(flows.size()), flows.size(), 50, [&] { return own_times(topology, flows); },
      [&](PeerUpdate update) { return simgrid_times(topology, flows, update); });
}

}  // namespace

int main(int argc, char** argv) {
  bool all = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--ours") with_peer = false;
    if (argument == "--lazy") with_full = false;
    if (argument == "--full") with_lazy = false;
    if (argument == "--only" && i + 1 < argc) only = argv[++i];
    if (argument == "--all" || argument == "--only") all = true;
  }
  fmt::print("{:42} {:>9} {:>8} {:>8} {:>8} {:>7} {:>5} {:>5} {:>8}\n", "", "flows", "ours s", "lazy s",
             "full s", "ratio", "goal", "MiB", "apart");
  bool holds = ring(1024);
  const std::pair<PeerShape, const char*> shapes[] = {
      {PeerShape::fat_tree, "fat tree"}, {PeerShape::star, "star"}, {PeerShape::dragonfly, "dragonfly"}};
  for (const auto& [shape, name] : shapes) {
    holds &= at_once(fmt::format("4 random flows a host, 1024 hosts, {}", name), shape, 1024,
                     random_flows(1024, 4, 1));
  }
  std::vector<PeerFlow> equal = random_flows(256, 0, 1);
  for (PeerFlow& flow : equal) flow.bytes = 1e6;
  holds &= at_once("all-to-all of 256 at once, equal, star", PeerShape::star, 256, equal);
  holds &= at_once("all-to-all of 96 at once, unequal, star", PeerShape::star, 96, random_flows(96, 0, 1));
  if (all) {
    holds &= ring(4096);
    holds &=
        at_once("4 random flows a host, 4096 hosts, star", PeerShape::star, 4096, random_flows(4096, 4, 1));
    holds &=
        at_once("all-to-all of 256 at once, unequal, star", PeerShape::star, 256, random_flows(256, 0, 1));
  }
  return holds ? 0 : 3;
}

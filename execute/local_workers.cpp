#include "execute/local_workers.hpp"

#include <fmt/format.h>

namespace foretrain {
namespace {

[[noreturn]] void mismatch(const std::string& wanted, const std::string& found) {
  throw Error(ErrorKind::unavailable,
              fmt::format("the scenario's cluster has {}; what is there: {}", wanted, found));
}

std::string counted(int count, const std::string& what) {
  if (count == 1) return "1 " + what;
  return fmt::format("{} {}{}", count, what, what.ends_with("s") ? "es" : "s");
}

}  // namespace

LocalWorkers assign_workers(const LaunchEnvironment& launch, const Cluster& cluster, int devices) {
  const int workers = static_cast<int>(cluster.topology.workers.size());
  const int nodes = cluster.topology.nodes;
  const int per_node = cluster.topology.gpus_per_node;
  LocalWorkers local;
  local.world = workers;
  using Kind = LaunchEnvironment::Kind;
  const std::string wanted = counted(workers, "worker") + " on " + counted(nodes, "node");
  switch (launch.kind) {
    case Kind::alone:
      if (nodes != 1) {
        mismatch(wanted,
                 "one process on one node; start one on each node (mpirun, srun, torchrun, or "
                 "NODE_RANK and NNODES)");
      }
      if (devices < workers) mismatch(wanted, counted(devices, "device"));
      for (int i = 0; i < workers; ++i) local.devices.push_back(i);
      local.node = 0;
      return local;
    case Kind::process_a_node: {
      if (nodes != launch.nodes) mismatch(wanted, fmt::format("NNODES={}", launch.nodes));
      if (per_node * nodes != workers) mismatch(wanted, "an equal number of workers a node only");
      if (devices < per_node) {
        mismatch(fmt::format("{}, {} a node", wanted, per_node),
                 fmt::format("{} on node {}", counted(devices, "device"), launch.node));
      }
      local.first_rank = launch.node * per_node;
      for (int i = 0; i < per_node; ++i) local.devices.push_back(i);
      local.node = launch.node;
      local.spans_processes = nodes > 1;
      return local;
    }
    case Kind::process_a_worker:
      if (workers != launch.ranks) {
        mismatch(wanted, fmt::format("{} started by {}", counted(launch.ranks, "process"), launch.launcher));
      }
      if (devices == 0) mismatch(wanted, "no device");
      local.first_rank = launch.rank;
      // A launcher may show each process its own device only.
      if (devices > 1 && launch.local_rank >= devices) {
        mismatch(wanted, fmt::format("local rank {} with {}", launch.local_rank, counted(devices, "device")));
      }
      local.devices.push_back(devices == 1 ? 0 : launch.local_rank);
      local.spans_processes = launch.ranks > 1;
      return local;
  }
  return local;
}

}  // namespace foretrain

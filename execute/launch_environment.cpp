#include "execute/launch_environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace foretrain {
namespace {

int number(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) {
    throw Error(ErrorKind::input, fmt::format("the environment variable {} is missing beside others of the "
                                              "same launcher",
                                              name));
  }
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) {
    throw Error(ErrorKind::input,
                fmt::format("the environment variable {} is '{}', not a number", name, text));
  }
  return value;
}

[[noreturn]] void mismatch(const std::string& wanted, const std::string& found) {
  throw Error(ErrorKind::unavailable,
              fmt::format("the scenario's cluster has {}; what is there: {}", wanted, found));
}

std::string counted(int count, const std::string& what) {
  if (count == 1) return "1 " + what;
  return fmt::format("{} {}{}", count, what, what.ends_with("s") ? "es" : "s");
}

}  // namespace

LaunchEnvironment read_launch_environment(const Environment& environment) {
  struct Launcher {
    const char *name, *rank, *ranks, *local;
    const char* marker;  // set by this launcher only
  };
  // torchrun first: it may itself be started by srun.
  constexpr Launcher launchers[] = {
      {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_RANK"},
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_RANK"},
  };
  LaunchEnvironment launch;
  const auto take = [&](const char* name, const char* rank, const char* ranks, const char* local) {
    launch.launcher = name;
    launch.rank = number(environment, rank);
    launch.ranks = number(environment, ranks);
    launch.local_rank = number(environment, local);
    if (launch.rank >= launch.ranks) {
      throw Error(ErrorKind::input,
                  fmt::format("{} is {}, but {} is {}", rank, launch.rank, ranks, launch.ranks));
    }
    launch.kind = LaunchEnvironment::Kind::process_a_worker;
  };
  for (const Launcher& launcher : launchers) {
    if (environment(launcher.marker) == nullptr) continue;
    take(launcher.name, launcher.rank, launcher.ranks, launcher.local);
    return launch;
  }
  if (environment("NODE_RANK") != nullptr && environment("NNODES") != nullptr) {
    launch.launcher = "NODE_RANK";
    launch.node = number(environment, "NODE_RANK");
    launch.nodes = number(environment, "NNODES");
    if (launch.node >= launch.nodes) {
      throw Error(ErrorKind::input,
                  fmt::format("NODE_RANK is {}, but NNODES is {}", launch.node, launch.nodes));
    }
    launch.kind = LaunchEnvironment::Kind::process_a_node;
    return launch;
  }
  // A shell inside an allocation has SLURM_NTASKS but is no task: srun sets SLURM_STEP_ID and SLURM_PROCID.
  if (environment("SLURM_PROCID") != nullptr && environment("SLURM_STEP_ID") != nullptr) {
    const char* tasks = environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    take("srun", "SLURM_PROCID", tasks, "SLURM_LOCALID");
  }
  return launch;
}

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

#include "device/launch_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "sim/base/error.hpp"

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

}  // namespace

LaunchEnvironment read_launch_environment(const Environment& environment) {
  struct Launcher {
    const char *name, *rank, *ranks, *local;
    const char* marker;  // set by this launcher only
  };
  // torchrun first: it may itself be started by srun.
  constexpr Launcher launchers[] = {
      {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "RANK"},
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_RANK"},
      {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALRANKID"},
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

const char* process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string node_name(const Environment& environment) {
  const char* id = environment("NCCL_HOSTID");
  if (id != nullptr && *id != '\0') return id;
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace foretrain

// Which part of a run this process is: alone, or one of several started by mpirun, srun, torchrun or a script
// that sets NODE_RANK and NNODES.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/input/scenario.hpp"

namespace foretrain {

// The environment's value, or nullptr.
using Environment = std::function<const char*(const char*)>;

struct LaunchEnvironment {
  enum class Kind {
    alone,             // this process drives all workers
    process_a_worker,  // mpirun, srun, torchrun
    process_a_node,    // NODE_RANK, NNODES
  };
  Kind kind = Kind::alone;
  std::string launcher;                     // "mpirun", "srun", "torchrun", "NODE_RANK"; empty where alone
  int rank = 0, ranks = 1, local_rank = 0;  // process_a_worker
  int node = 0, nodes = 1;                  // process_a_node
};

// Throws Error (input) where the variables contradict each other.
LaunchEnvironment read_launch_environment(const Environment& environment);

// The workers that this process drives.
struct LocalWorkers {
  int first_rank = 0;
  int world = 1;
  int node = -1;             // -1: not known before the ranks meet
  std::vector<int> devices;  // of rank first_rank, first_rank + 1, ...
  bool spans_processes = false;
};

// Throws Error (unavailable) where the scenario's cluster is not what is there; names both.
LocalWorkers assign_workers(const LaunchEnvironment& launch, const Cluster& cluster, int devices);

}  // namespace foretrain

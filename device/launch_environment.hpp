// Which of several processes this one is: alone, or one of several started by mpirun, srun, torchrun or a
// script that sets NODE_RANK and NNODES.
#pragma once

#include <functional>
#include <string>

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
const char* process_environment(const char* name);  // of this process; nullptr where empty

// What tells nodes apart: NCCL_HOSTID where it is set, so that network namespaces can play nodes as they do
// for NCCL, else the host's name.
std::string node_name(const Environment& environment);

}  // namespace foretrain

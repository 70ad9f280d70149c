// Where the processes of a calibration that were started together meet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/launch_environment.hpp"

namespace foretrain::calibrate {

struct LaunchedRank {
  std::string launcher;  // "torchrun", "srun", "mpirun", "NODE_RANK"
  int rank = 0, ranks = 1, local_rank = 0;
  std::string host;  // where rank 0 listens; empty where the launcher does not say
  int port = 0;
};

// Nothing where this process was started alone. `rendezvous` ("host:port") overrides what the launcher says;
// the variable NCCL_COMM_ID (the port after its own) is the next to be asked. Throws Error (input) where
// variables contradict each other.
std::optional<LaunchedRank> launched_rank(const Environment& environment, const std::string& rendezvous);

// The ranks that this process serves: its own, or under NODE_RANK one a device of its node, all nodes alike.
std::vector<LaunchedRank> ranks_served(const LaunchedRank& launched, int devices);

// A number that is equal on ranks of one node and differs between nodes: of node_name(). Exact in a double.
double host_id(const Environment& environment);

// First host of a Slurm list: "gpu[03-07,11],login" -> "gpu03".
std::string first_host(const std::string& list);

}  // namespace foretrain::calibrate

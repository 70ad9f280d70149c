// The workers of a scenario's cluster that this process drives.
#pragma once

#include <vector>

#include "device/launch_environment.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

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

// Clusters whose GPUs are not all of the type that the scenario's profile timed.
#pragma once

#include <memory>
#include <vector>

#include "sim/training/profile.hpp"

namespace foretrain {

struct GpuTypes {
  std::vector<std::shared_ptr<const Profile>> profiles;  // of the other types
  std::vector<int>
      of_worker;  // by rank: 0 the scenario's own profile, else one more than a place in profiles

  // A rank that is no worker (a server) is of the scenario's own type.
  int of(std::size_t rank) const { return rank < of_worker.size() ? of_worker[rank] : 0; }
};

}  // namespace foretrain

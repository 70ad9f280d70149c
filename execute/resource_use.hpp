// What a run took of its nodes, from what was sampled beside it.
#pragma once

#include <optional>
#include <vector>

#include "execute/run_record.hpp"

namespace foretrain {

// Of a node's processes, over the samples from the first counted step on; 0 where nothing was sampled.
struct ResourceUse {
  int node = 0;
  double cores = 0;                             // kept busy, mean
  double resident_mean = 0, resident_peak = 0;  // bytes
  double sent = 0;                              // bytes over the network, all in all
};
// By node; empty where neither processor nor memory was sampled.
std::vector<ResourceUse> resource_use(const RunRecord& record);

// Bytes by which the resident memory of a node rises, at most, while checkpoints are written: its highest
// sample then, less the median of those before the first one. Nothing where no sample fell into one.
std::optional<double> checkpoint_memory(const RunRecord& record);

}  // namespace foretrain

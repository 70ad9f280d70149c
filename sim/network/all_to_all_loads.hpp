// What an all-to-all of many ranks puts on the links of a topology, by counts: workers whose ways leave their
// nodes (or enter them) by the same switches are one class, and switches with the same neighbours share what
// lies between them. Costs the ranks and the pairs of switches, not the pairs of ranks.
#pragma once

#include <optional>
#include <vector>

#include "sim/network/link_loads.hpp"

namespace foretrain {

// Of each link, in the order of the topology's links; of half-duplex ones on the first direction. Where a
// hash chooses among equal ways, the mean and the variance over all seeds; `first` has no variance, `spread`
// is counted as evenly spread over all equal ways.
struct CountedLoads {
  std::vector<double> mean;      // bytes over S
  std::vector<double> variance;  // of the same
  Time longest_latency;          // of one pair's way
};

// Nothing where workers stand outside nodes, and where thousands of switches without their like have workers.
// Throws where no path joins two ranks.
std::optional<CountedLoads> counted_all_to_all(const Topology& topology, Routes& routes,
                                               const RankGroup& group);

}  // namespace foretrain

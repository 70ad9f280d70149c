// Rings over the NVLinks that join the GPUs of a node to each other, without a switch: as NCCL searches them
// (src/graph/search.cc), several that share the links, each link used for its rate at most.
#pragma once

#include <vector>

namespace foretrain {

// Rates of the direct links from GPU to GPU, in bytes a second; 0: none.
using LinkRates = std::vector<std::vector<double>>;

// Orders of the GPUs, one a ring; all rings carry the same. Where no ring passes over these links alone, one
// with the fewest other hops. Empty where the order of the GPUs is as good a ring: no links, or fewer than
// three GPUs. The search is bounded: of many GPUs it may find fewer rings than there are.
std::vector<std::vector<int>> nvlink_rings(const LinkRates& rates);

}  // namespace foretrain

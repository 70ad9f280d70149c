// All-reduce that switches add up on the way (SHARP): every rank sends its buffer once and has the sum once.
#pragma once

#include <vector>

#include "sim/network/collectives.hpp"
#include "sim/network/link_loads.hpp"
#include "sim/network/routes.hpp"

namespace foretrain {

// The switches that add up, as a tree of links towards its root. Where a node has several ranks they first
// scatter among each other, and each takes its share up by itself (as NCCL's CollNet): a tree for each place
// in the nodes.
struct SwitchTree {
  std::vector<int> up;      // links, those farther from the root first
  std::vector<int> parent;  // index into `up` of the link above, -1 at the root
  double share = 0;         // of S on each link
};
// Throws where the ways of two ranks meet in no switch, or nodes have unequal numbers of ranks.
std::vector<SwitchTree> switch_trees(const Topology& topology, Routes& routes, const RankGroup& group);

// The rounds within nodes before (and after) the trees; empty with one rank a node.
Round round_within_nodes(const RankGroup& group);

LinkLoads in_network_loads(const Topology& topology, Routes& routes, const RankGroup& group);

}  // namespace foretrain

// What makes single links and workers of a topology differ from their like: slow, shared with others, failed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/network/topology.hpp"

namespace foretrain {

struct LinkChange {
  // With '>' of links, one direction each; else of a class or of a vertex (its links of the network, or all
  // where it has none). '*' stands for any letters: of vertices, or of classes where it fits no vertex.
  std::string name;
  std::optional<Rate> bandwidth;
  std::optional<Time> latency;
  std::optional<Rate> background;  // payload of other traffic
  bool failed = false;             // the link is gone
  bool half_duplex = false;
};

// Applies changes in order. Links that failed are taken out at the end. A name that fits nothing is an Error.
// Returns what each pattern fits ("4 directions of links: node0.nic0>switch, ..."), empty for plain names.
std::vector<std::string> change_links(Topology& topology, std::span<const LinkChange> changes);

// Makes the workers of ranks first to last slower by a factor.
void slow_workers(Topology& topology, int first, int last, double factor);

// Leaves the workers of some ranks only: the others belong to other jobs.
void keep_workers(Topology& topology, const std::vector<bool>& kept);

// Whether a name fits a pattern in which '*' stands for any letters.
bool fits(std::string_view pattern, std::string_view name);

}  // namespace foretrain

// What a set of transfers puts on each link of a topology.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/network/collectives.hpp"
#include "sim/network/routes.hpp"

namespace foretrain {

// The busiest link of a class of equal links.
struct ClassLoad {
  std::string link_class;
  LinkKind kind = LinkKind::network;
  int used = 0;                 // links of the class that carry anything
  double share = 0;             // bytes on the busiest over S
  double seconds_per_byte = 0;  // its bytes over its payload rate (line rate x efficiency), for S = 1
};

struct LinkLoads {
  std::vector<ClassLoad> classes;       // by name
  double network_seconds_per_byte = 0;  // the slowest link of the network, and of the nodes' insides
  double inside_seconds_per_byte = 0;
  Time longest_latency;  // of one transfer's way
};

// `extra` adds shares on links by themselves.
LinkLoads link_loads(const Topology& topology, Routes& routes, const RankGroup& group,
                     std::span<const Transfer> transfers, std::span<const std::pair<int, double>> extra = {});

}  // namespace foretrain

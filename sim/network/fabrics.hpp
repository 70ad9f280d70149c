// What joins the ports of a cluster (NICs, or bare hosts) outside its nodes: switches and links between them.
// Each function adds its switches to a topology and joins port i of the list where the shape puts it; rates
// are line rates of one direction.
#pragma once

#include <span>
#include <vector>

#include "sim/network/topology.hpp"

namespace foretrain {

// A port that the network joins: rail is the index of a NIC within its node.
struct Port {
  int vertex = 0;
  int node = 0;
  int rail = 0;
};

// Leaves of `ports_per_leaf` ports, each joined to every spine. Uplinks of a leaf together carry its ports'
// rate over `oversubscription`.
struct LeafSpineShape {
  int ports_per_leaf = 16;
  int spines = 0;  // 0: as many as make an uplink as fast as a port
  double oversubscription = 1;
};
void join_leaf_spine(Topology& topology, std::span<const Port> ports, const LeafSpineShape& shape);

// Three levels: leaves in pods, each joined to the pod's aggregation switches, and these to the cores of
// their column (Al-Fares, Loukissas, Vahdat 2008: radix k is k/2 ports a leaf, k/2 leaves a pod).
struct FatTreeShape {
  // 0, as leaves_per_pod: of the smallest radix that holds all ports, and whole nodes a leaf.
  int ports_per_leaf = 0;
  int leaves_per_pod = 0;
  double oversubscription = 1;       // of leaves
  double core_oversubscription = 1;  // of aggregation switches
};
void join_fat_tree(Topology& topology, std::span<const Port> ports, const FatTreeShape& shape);

// NIC r of each node stands on a switch of rail r. With spines the switches of all rails are joined by them
// (rail-optimized), without, rails do not meet (rail-only).
struct RailShape {
  int nodes_per_leaf = 0;  // 0: all nodes on one switch a rail
  bool has_spines = true;
  int spines = 0;  // as LeafSpineShape
  double oversubscription = 1;
};
void join_rails(Topology& topology, std::span<const Port> ports, const RailShape& shape);

// Groups of routers that are joined each to each; one link or more between each two groups, spread over the
// routers of a group (Kim, Dally, Scott, Abts 2008).
struct DragonflyShape {
  int ports_per_router = 8;
  int routers_per_group = 8;
  int links_between_groups = 1;
};
void join_dragonfly(Topology& topology, std::span<const Port> ports, const DragonflyShape& shape);

// A switch a node in a grid whose rows close: one to three sides, whose product is the number of nodes. A
// side of two has one link, not two. All ports of a node stand on its switch.
void join_torus(Topology& topology, std::span<const Port> ports, std::span<const int> sides);

// Nodes in sites, a switch each, with a node more or less; sites are joined each to each by a link of the
// wide area.
struct WanShape {
  int sites = 2;
  Rate bandwidth;
  Time latency;  // one way
};
void join_sites(Topology& topology, std::span<const Port> ports, const WanShape& shape);

}  // namespace foretrain

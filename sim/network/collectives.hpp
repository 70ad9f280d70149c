// Collective operations, the algorithms that carry them out, and what each puts on the wires.
// Sizes follow nccl-tests: S is the buffer of a rank for all_reduce, broadcast, reduce and send_recv, the
// whole gathered or scattered buffer for all_gather and reduce_scatter, and all that a rank sends for
// all_to_all.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/collective_kind.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

// ring: one a NIC; chains for broadcast and reduce. tree: a double binary tree over nodes, chains within
// them. direct: each pair sends its part by itself (all_to_all, send_recv). halving_doubling: partners at
// distances that halve, then double (Thakur, Rabenseifner, Gropp 2005). hierarchical: a ring within each
// node, then rings over nodes between GPUs of the same place, then within again. in_network: the switches add
// up on the way. parameter_server: everyone sends a shard to each server and has it back, a server on each
// node. bcube: Gloo's, groups of neighbours, then of groups, exchange their parts, and all the way back.
enum class CollectiveAlgorithm {
  ring,
  tree,
  direct,
  halving_doubling,
  hierarchical,
  in_network,
  parameter_server,
  bcube
};
inline constexpr int collective_algorithm_count = 8;
const char* name_of(CollectiveAlgorithm algorithm);  // "halving-doubling"
std::optional<CollectiveAlgorithm> collective_algorithm(std::string_view name);
// Whether the algorithm exists for the kind: tree as NCCL has it for all_reduce only, direct for all_to_all
// and send_recv, halving-doubling for all_reduce and its halves, the others for all_reduce.
bool has_algorithm(CollectiveKind kind, CollectiveAlgorithm algorithm);
// "ring, tree, ..."; of one kind, or all.
std::string algorithm_names(std::optional<CollectiveKind> kind = std::nullopt);
CollectiveAlgorithm default_algorithm(CollectiveKind kind);

// Bus bandwidth over algorithm bandwidth, as nccl-tests counts it (doc/PERFORMANCE.md): 2(n-1)/n for
// all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, 1 for the others.
double bus_factor(CollectiveKind kind, int ranks);

// The ranks of a group by the node that they stand on, in rank order.
struct RankGroup {
  std::vector<int> workers;               // vertex of each rank
  std::vector<std::vector<int>> by_node;  // ranks (indices into workers) of each node that has one
  // Of nodes whose GPUs NVLinks join to each other without a switch: rings of ranks over these links
  // (sim/network/nvlink_rings); empty for a node whose rings go in rank order, and where all do.
  std::vector<std::vector<std::vector<int>>> node_rings;
  int ranks = 0;
  int nodes = 0;
  int most_per_node = 0;
};
// `ranks` are global ranks: indices into Topology::workers. An unknown or repeated rank is an error.
RankGroup rank_group(const Topology& topology, std::span<const int> ranks);

// Bytes that one rank sends another over the whole collective, as a share of S.
struct Transfer {
  int from = 0, to = 0;  // ranks of the group
  double share = 0;
};
// One round of an algorithm that goes by rounds: a rank begins its next once it has sent and received all of
// this one.
struct Round {
  std::vector<Transfer> transfers;
  int repeat = 1;
};
// The rounds of halving_doubling, hierarchical, parameter_server and bcube; empty for the others.
// hierarchical takes equal numbers of ranks a node, else it is an Error.
std::vector<Round> rounds(CollectiveKind kind, CollectiveAlgorithm algorithm, const RankGroup& group);

// The transfers of one collective; none for in_network, whose switches take part (sim/network/in_network).
// `rings` counts the rings, each with its share of S, which enter the nodes
// at different GPUs (one a NIC). all_to_all has n(n-1) of them, the others O(n).
std::vector<Transfer> transfers(CollectiveKind kind, CollectiveAlgorithm algorithm, const RankGroup& group,
                                int rings = 1);

// How many rings a group has: one a NIC between nodes; within a node as its NVLinks allow, or one.
int rings_of(const Topology& topology, const RankGroup& group);

// The orders in which `rings` rings pass through a node, by its place in the group: each from the rank at
// which it comes in.
std::vector<std::vector<int>> orders_in_node(const RankGroup& group, std::size_t node, int rings);

// The order of the ranks in each of `rings` rings: node by node, as orders_in_node.
std::vector<std::vector<int>> ring_orders(const RankGroup& group, int rings);

// A node of a binary tree over 0..n-1; -1 where there is none. Every inner node of one of the two trees is a
// leaf of the other (Sanders, Speck, Traeff 2009), so that both together load each node alike.
struct TreeNode {
  int parent = -1;
  int children[2] = {-1, -1};
};
std::vector<TreeNode> binary_tree(int nodes);
std::vector<TreeNode> second_binary_tree(int nodes);
int depth(const std::vector<TreeNode>& tree);

// Steps of a ring that are one after the other: 2(n-1) for all_reduce, n-1 for the others.
int ring_steps(CollectiveKind kind, int ranks);

}  // namespace foretrain

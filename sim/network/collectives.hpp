// Collective operations, the algorithms that carry them out, and what each puts on the wires.
// Sizes follow nccl-tests: S is the buffer of a rank for all_reduce, broadcast, reduce and send_recv, the
// whole gathered or scattered buffer for all_gather and reduce_scatter, and all that a rank sends for
// all_to_all.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/collective_kind.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

// direct: each pair sends its part by itself (all_to_all, send_recv).
enum class CollectiveAlgorithm { ring, tree, direct };
const char* name_of(CollectiveAlgorithm algorithm);
std::optional<CollectiveAlgorithm> collective_algorithm(std::string_view name);
// Whether the algorithm exists for the kind, as NCCL has them: tree for all_reduce only.
bool has_algorithm(CollectiveKind kind, CollectiveAlgorithm algorithm);
CollectiveAlgorithm default_algorithm(CollectiveKind kind);

// Bus bandwidth over algorithm bandwidth, as nccl-tests counts it (doc/PERFORMANCE.md): 2(n-1)/n for
// all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, 1 for the others.
double bus_factor(CollectiveKind kind, int ranks);

// The ranks of a group by the node that they stand on, in rank order.
struct RankGroup {
  std::vector<int> workers;               // vertex of each rank
  std::vector<std::vector<int>> by_node;  // ranks (indices into workers) of each node that has one
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
// The transfers of one collective. `rings` counts the rings, each with its share of S, which enter the nodes
// at different GPUs (one a NIC). all_to_all has n(n-1) of them, the others O(n).
std::vector<Transfer> transfers(CollectiveKind kind, CollectiveAlgorithm algorithm, const RankGroup& group,
                                int rings = 1);

// The order of the ranks in ring `ring` of `rings`: node by node, rotated within a node.
std::vector<int> ring_order(const RankGroup& group, int ring, int rings);

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

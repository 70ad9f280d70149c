#include "sim/network/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/network/nvlink_rings.hpp"

namespace foretrain {
namespace {

constexpr std::array<const char*, collective_algorithm_count> names = {
    "ring", "tree", "direct", "halving-doubling", "hierarchical", "in-network", "parameter-server", "bcube"};

std::size_t first_of_ring(const std::vector<int>& node, int ring, int rings) {
  return node.size() * static_cast<std::size_t>(ring) / static_cast<std::size_t>(rings);
}

bool has_rings(const RankGroup& group, std::size_t node) {
  return !group.node_rings.empty() && !group.node_rings[node].empty();
}

// From the GPU of a node at which a ring comes in to that at which it goes out, all rings together, and,
// where both ways, back.
void add_within_node(std::vector<Transfer>& all, const RankGroup& group, std::size_t node, int rings,
                     double share, bool both_ways) {
  const std::vector<int>& ranks = group.by_node[node];
  if (ranks.size() < 2) return;
  auto add = [&](int from, int to, double all_shares) {
    all.push_back({from, to, all_shares});
    if (both_ways) all.push_back({to, from, all_shares});
  };
  if (has_rings(group, node)) {
    for (const std::vector<int>& order : orders_in_node(group, node, rings)) {
      for (std::size_t i = 0; i + 1 < order.size(); ++i) add(order[i], order[i + 1], share);
    }
    return;
  }
  // In a circle, each ring without the step to the GPU at which it enters.
  std::vector<int> enter(ranks.size());
  for (int ring = 0; ring < rings; ++ring) ++enter[first_of_ring(ranks, ring, rings)];
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t next = (i + 1) % ranks.size();
    if (enter[next] < rings) add(ranks[i], ranks[next], share * (rings - enter[next]));
  }
}

// Chains within nodes reduce towards the GPU that talks to other nodes, and bring the result back.
std::vector<Transfer> tree_transfers(const RankGroup& group, int pairs) {
  std::vector<Transfer> all;
  const double share = 0.5 / pairs;
  for (std::size_t node = 0; node < group.by_node.size(); ++node)
    add_within_node(all, group, node, pairs, 2 * share, true);
  for (const auto& tree : {binary_tree(group.nodes), second_binary_tree(group.nodes)}) {
    for (int pair = 0; pair < pairs; ++pair) {
      for (int node = 0; node < group.nodes; ++node) {
        const int parent = tree[static_cast<std::size_t>(node)].parent;
        if (parent < 0) continue;
        const std::vector<int>& ranks = group.by_node[static_cast<std::size_t>(node)];
        const std::vector<int>& above = group.by_node[static_cast<std::size_t>(parent)];
        const int own = ranks[first_of_ring(ranks, pair, pairs)];
        const int head = above[first_of_ring(above, pair, pairs)];
        all.push_back({own, head, share});
        all.push_back({head, own, share});
      }
    }
  }
  return all;
}

// Rings over all ranks that close.
std::vector<Transfer> ring_transfers(const RankGroup& group, int rings, double share) {
  std::vector<Transfer> all;
  const std::size_t nodes = group.by_node.size();
  std::vector<int> way_out(static_cast<std::size_t>(rings));
  for (std::size_t node = 0; node < nodes; ++node) {
    add_within_node(all, group, node, rings, share, false);
    const std::vector<int>& ranks = group.by_node[node];
    const std::vector<int>& next = group.by_node[(node + 1) % nodes];
    if (has_rings(group, node)) {
      const std::vector<std::vector<int>> orders = orders_in_node(group, node, rings);
      for (std::size_t ring = 0; ring < orders.size(); ++ring) way_out[ring] = orders[ring].back();
    } else {
      for (int ring = 0; ring < rings; ++ring) {
        const std::size_t first = first_of_ring(ranks, ring, rings);
        way_out[static_cast<std::size_t>(ring)] = ranks[(first + ranks.size() - 1) % ranks.size()];
      }
    }
    for (int ring = 0; ring < rings; ++ring) {
      all.push_back({way_out[static_cast<std::size_t>(ring)], next[first_of_ring(next, ring, rings)], share});
    }
  }
  return all;
}

// Rings over NVLinks from GPU to GPU, where a node has any and no NVSwitch; once for nodes that are alike.
void find_node_rings(const Topology& topology, RankGroup& group) {
  if (group.most_per_node < 3) return;
  struct Place {
    std::size_t node, index;
  };
  std::unordered_map<int, Place> place_of;  // of a worker's vertex, once a node with such links is found
  std::vector<LinkRates> rates;
  auto is_worker = [&](int vertex) {
    const VertexKind kind = topology.vertices[static_cast<std::size_t>(vertex)].kind;
    return kind == VertexKind::gpu || kind == VertexKind::cpu;
  };
  for (const Link& link : topology.links) {
    if (link.kind != LinkKind::nvlink || !is_worker(link.from) || !is_worker(link.to)) continue;
    if (rates.empty()) {
      rates.resize(group.by_node.size());
      for (std::size_t node = 0; node < group.by_node.size(); ++node) {
        const std::vector<int>& ranks = group.by_node[node];
        for (std::size_t i = 0; i < ranks.size(); ++i)
          place_of[group.workers[static_cast<std::size_t>(ranks[i])]] = {node, i};
      }
    }
    const auto from = place_of.find(link.from), to = place_of.find(link.to);
    if (from == place_of.end() || to == place_of.end() || from->second.node != to->second.node) continue;
    LinkRates& own = rates[from->second.node];
    const std::size_t size = group.by_node[from->second.node].size();
    if (own.empty()) own.assign(size, std::vector<double>(size));
    own[from->second.index][to->second.index] += link.payload_rate();
  }
  if (rates.empty()) return;
  for (const Link& link : topology.links) {
    if (link.kind != LinkKind::nvlink || is_worker(link.to)) continue;
    if (const auto from = place_of.find(link.from); from != place_of.end()) rates[from->second.node].clear();
  }
  std::map<LinkRates, std::vector<std::vector<int>>> known;
  group.node_rings.resize(group.by_node.size());
  for (std::size_t node = 0; node < rates.size(); ++node) {
    if (rates[node].empty()) continue;
    const auto [found, is_new] = known.try_emplace(rates[node]);
    if (is_new) found->second = nvlink_rings(rates[node]);
    for (std::vector<int> ring : found->second) {
      for (int& place : ring) place = group.by_node[node][static_cast<std::size_t>(place)];
      group.node_rings[node].push_back(std::move(ring));
    }
  }
}

// Mirror for an even count, shift by one for an odd one: either way inner nodes become leaves.
int second_tree_position(int node, int nodes) {
  return nodes % 2 == 0 ? nodes - 1 - node : (node + nodes - 1) % nodes;
}

}  // namespace

const char* name_of(CollectiveAlgorithm algorithm) {
  return names[static_cast<std::size_t>(algorithm)];
}

std::optional<CollectiveAlgorithm> collective_algorithm(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<CollectiveAlgorithm>(i);
  }
  return std::nullopt;
}

bool has_algorithm(CollectiveKind kind, CollectiveAlgorithm algorithm) {
  const bool is_direct = kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_recv;
  if (algorithm == CollectiveAlgorithm::direct) return is_direct;
  if (algorithm == CollectiveAlgorithm::ring) return !is_direct;
  if (algorithm == CollectiveAlgorithm::halving_doubling) {
    return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
           kind == CollectiveKind::all_gather;
  }
  return kind == CollectiveKind::all_reduce;
}

std::string algorithm_names(std::optional<CollectiveKind> kind) {
  std::string all;
  for (int a = 0; a < collective_algorithm_count; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    if (kind && !has_algorithm(*kind, algorithm)) continue;
    all += (all.empty() ? "" : ", ") + std::string(name_of(algorithm));
  }
  return all;
}

CollectiveAlgorithm default_algorithm(CollectiveKind kind) {
  return has_algorithm(kind, CollectiveAlgorithm::ring) ? CollectiveAlgorithm::ring
                                                        : CollectiveAlgorithm::direct;
}

double bus_factor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return (n - 1) / n;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send_recv:
      return 1;
  }
  return 1;
}

RankGroup rank_group(const Topology& topology, std::span<const int> ranks) {
  RankGroup group;
  std::unordered_set<int> seen;
  std::map<int, std::size_t> position;  // node -> index into by_node
  for (int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(topology.workers.size())) {
      throw Error(ErrorKind::input, fmt::format("rank {} does not exist: the cluster has {} workers", rank,
                                                topology.workers.size()));
    }
    if (!seen.insert(rank).second) {
      throw Error(ErrorKind::input, fmt::format("rank {} stands twice in a group", rank));
    }
    const int vertex = topology.workers[static_cast<std::size_t>(rank)];
    const int node = topology.vertices[static_cast<std::size_t>(vertex)].node;
    const auto [at, is_new] = position.try_emplace(node, group.by_node.size());
    if (is_new) group.by_node.emplace_back();
    group.by_node[at->second].push_back(group.ranks);
    group.workers.push_back(vertex);
    ++group.ranks;
  }
  group.nodes = static_cast<int>(group.by_node.size());
  for (const auto& node : group.by_node) {
    group.most_per_node = std::max(group.most_per_node, static_cast<int>(node.size()));
  }
  find_node_rings(topology, group);
  return group;
}

int rings_of(const Topology& topology, const RankGroup& group) {
  if (group.nodes > 1) return std::max(1, topology.nics_per_node);
  return has_rings(group, 0) ? static_cast<int>(group.node_rings.front().size()) : 1;
}

std::vector<std::vector<int>> orders_in_node(const RankGroup& group, std::size_t node, int rings) {
  const std::vector<int>& ranks = group.by_node[node];
  std::vector<std::vector<int>> orders;
  auto add = [&](const std::vector<int>& circle, std::size_t first) {
    orders.emplace_back(circle.begin() + static_cast<std::ptrdiff_t>(first), circle.end());
    orders.back().insert(orders.back().end(), circle.begin(),
                         circle.begin() + static_cast<std::ptrdiff_t>(first));
  };
  if (!has_rings(group, node)) {
    for (int ring = 0; ring < rings; ++ring) add(ranks, first_of_ring(ranks, ring, rings));
    return orders;
  }
  // Each takes the circle by which it goes out where the fewest others do (NICs serve their shares of the
  // ranks, as where it comes in), and of these the one with the fewest rings.
  const std::vector<std::vector<int>>& circles = group.node_rings[node];
  std::vector<int> times(circles.size());
  std::vector<int> leaving(static_cast<std::size_t>(rings));
  for (int ring = 0; ring < rings; ++ring) {
    const int enter = ranks[first_of_ring(ranks, ring, rings)];
    auto first_of = [&](const std::vector<int>& circle) {
      return static_cast<std::size_t>(std::find(circle.begin(), circle.end(), enter) - circle.begin());
    };
    auto leaves_by = [&](const std::vector<int>& circle) {
      const int last = circle[(first_of(circle) + circle.size() - 1) % circle.size()];
      const auto place = std::find(ranks.begin(), ranks.end(), last) - ranks.begin();
      return static_cast<std::size_t>(place) * static_cast<std::size_t>(rings) / ranks.size();
    };
    std::size_t best = 0;
    auto rank_of = [&](std::size_t c) { return std::pair(leaving[leaves_by(circles[c])], times[c]); };
    for (std::size_t c = 1; c < circles.size(); ++c) {
      const bool is_better = group.nodes > 1 ? rank_of(c) < rank_of(best) : times[c] < times[best];
      if (is_better) best = c;
    }
    ++times[best];
    ++leaving[leaves_by(circles[best])];
    add(circles[best], first_of(circles[best]));
  }
  return orders;
}

std::vector<std::vector<int>> ring_orders(const RankGroup& group, int rings) {
  std::vector<std::vector<int>> all(static_cast<std::size_t>(rings));
  for (std::size_t node = 0; node < group.by_node.size(); ++node) {
    const std::vector<std::vector<int>> orders = orders_in_node(group, node, rings);
    for (std::size_t ring = 0; ring < orders.size(); ++ring)
      all[ring].insert(all[ring].end(), orders[ring].begin(), orders[ring].end());
  }
  return all;
}

std::vector<Transfer> transfers(CollectiveKind kind, CollectiveAlgorithm algorithm, const RankGroup& group,
                                int rings) {
  if (!has_algorithm(kind, algorithm)) {
    throw Error(ErrorKind::input, fmt::format("{} has no algorithm '{}'", name_of(kind), name_of(algorithm)));
  }
  const int n = group.ranks;
  std::vector<Transfer> all;
  if (n < 2) return all;
  if (algorithm == CollectiveAlgorithm::in_network) return all;
  if (algorithm == CollectiveAlgorithm::tree) return tree_transfers(group, rings);
  for (const Round& round : rounds(kind, algorithm, group)) {
    for (const Transfer& each : round.transfers)
      all.push_back({each.from, each.to, each.share * round.repeat});
  }
  if (!all.empty()) return all;
  if (kind == CollectiveKind::all_to_all) {
    all.reserve(static_cast<std::size_t>(n) * static_cast<std::size_t>(n - 1));
    for (int from = 0; from < n; ++from) {
      for (int step = 1; step < n; ++step) all.push_back({from, (from + step) % n, 1.0 / n});
    }
    return all;
  }
  if (kind == CollectiveKind::send_recv) {  // as nccl-tests: every rank sends to the next
    for (int from = 0; from < n; ++from) all.push_back({from, (from + 1) % n, 1.0});
    return all;
  }
  const double share = bus_factor(kind, n) / rings;
  if (kind != CollectiveKind::broadcast && kind != CollectiveKind::reduce) {
    return ring_transfers(group, rings, share);
  }
  // A broadcast is a chain from the first rank and a reduction one towards it: the ring without its last
  // edge.
  for (const std::vector<int>& order : ring_orders(group, rings)) {
    const auto root = static_cast<std::size_t>(std::find(order.begin(), order.end(), 0) - order.begin());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t next = (i + 1) % order.size();
      if (kind == CollectiveKind::broadcast && next == root) continue;
      if (kind == CollectiveKind::reduce && i == root) continue;
      all.push_back({order[i], order[next], share});
    }
  }
  return all;
}

std::vector<TreeNode> binary_tree(int nodes) {
  std::vector<TreeNode> tree(static_cast<std::size_t>(nodes));
  // Node i > 0 with lowest set bit b hangs below i with b cleared and the next bit set, or, where that does
  // not exist, below i - b; node 0 is the root above the largest power of two.
  for (int i = 1; i < nodes; ++i) {
    const int bit = i & -i;
    int parent = (i ^ bit) | (bit << 1);
    if (parent >= nodes) parent = i ^ bit;
    TreeNode& above = tree[static_cast<std::size_t>(parent)];
    tree[static_cast<std::size_t>(i)].parent = parent;
    above.children[above.children[0] < 0 ? 0 : 1] = i;
  }
  return tree;
}

std::vector<TreeNode> second_binary_tree(int nodes) {
  const std::vector<TreeNode> first = binary_tree(nodes);
  std::vector<int> node_at(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    node_at[static_cast<std::size_t>(second_tree_position(node, nodes))] = node;
  }
  auto renamed = [&](int position) {
    return position < 0 ? -1 : node_at[static_cast<std::size_t>(position)];
  };
  std::vector<TreeNode> tree(static_cast<std::size_t>(nodes));
  for (int position = 0; position < nodes; ++position) {
    const TreeNode& from = first[static_cast<std::size_t>(position)];
    TreeNode& to = tree[static_cast<std::size_t>(renamed(position))];
    to.parent = renamed(from.parent);
    to.children[0] = renamed(from.children[0]);
    to.children[1] = renamed(from.children[1]);
  }
  return tree;
}

int depth(const std::vector<TreeNode>& tree) {
  int deepest = 0;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    int steps = 0;
    for (int at = tree[i].parent; at >= 0; at = tree[static_cast<std::size_t>(at)].parent) ++steps;
    deepest = std::max(deepest, steps);
  }
  return deepest;
}

int ring_steps(CollectiveKind kind, int ranks) {
  return kind == CollectiveKind::all_reduce ? 2 * (ranks - 1) : ranks - 1;
}

}  // namespace foretrain

#include "sim/network/in_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

bool is_switch(const Topology& topology, int vertex) {
  const VertexKind kind = topology.vertices[static_cast<std::size_t>(vertex)].kind;
  return kind == VertexKind::network_switch || kind == VertexKind::nvswitch;
}

// The switch in the middle of the longest way from the first rank: all others' ways lead there.
int root_of(const Topology& topology, Routes& routes, const std::vector<int>& workers) {
  std::span<const int> longest;
  for (std::size_t i = 1; i < workers.size(); ++i) {
    const std::span<const int> way = routes.between(workers.front(), workers[i]);
    if (way.size() > longest.size()) longest = way;
  }
  int root = -1;
  double best = 0;
  for (std::size_t hop = 0; hop + 1 < longest.size(); ++hop) {
    const int vertex = topology.links[static_cast<std::size_t>(longest[hop])].to;
    const double from_middle =
        std::abs(static_cast<double>(hop) + 1 - static_cast<double>(longest.size()) / 2);
    if (is_switch(topology, vertex) && (root < 0 || from_middle < best)) {
      root = vertex;
      best = from_middle;
    }
  }
  if (root < 0) {
    throw Error(ErrorKind::input,
                fmt::format("in-network: the ways of topology '{}' meet in no switch that could add "
                            "up; take another algorithm",
                            topology.name));
  }
  return root;
}

SwitchTree tree_of(const Topology& topology, Routes& routes, const std::vector<int>& workers, double share) {
  SwitchTree tree;
  tree.share = share;
  const int root = root_of(topology, routes, workers);
  std::map<int, int> parent_of;  // link: the link above
  std::map<int, std::size_t> distance;
  for (const int worker : workers) {
    const std::span<const int> way = routes.between(worker, root);
    for (std::size_t hop = 0; hop < way.size(); ++hop) {
      // Ways that meet stay together, so that a link has one parent.
      if (!parent_of.try_emplace(way[hop], hop + 1 < way.size() ? way[hop + 1] : -1).second) break;
      distance[way[hop]] = way.size() - hop;
    }
  }
  for (const auto& [link, unused] : parent_of) tree.up.push_back(link);
  std::stable_sort(tree.up.begin(), tree.up.end(), [&](int a, int b) { return distance[a] > distance[b]; });
  std::map<int, int> place;
  for (std::size_t i = 0; i < tree.up.size(); ++i) place[tree.up[i]] = static_cast<int>(i);
  for (const int link : tree.up) {
    const int above = parent_of[link];
    tree.parent.push_back(above < 0 ? -1 : place[above]);
  }
  return tree;
}

}  // namespace

Round round_within_nodes(const RankGroup& group) {
  const std::vector<Round> all = rounds(CollectiveKind::all_reduce, CollectiveAlgorithm::hierarchical, group);
  return group.most_per_node > 1 && group.nodes > 1 ? all.front() : Round{{}, 0};
}

std::vector<SwitchTree> switch_trees(const Topology& topology, Routes& routes, const RankGroup& group) {
  std::vector<SwitchTree> trees;
  if (group.nodes < 2) return {tree_of(topology, routes, group.workers, 1)};
  const auto per_node = static_cast<std::size_t>(group.most_per_node);
  round_within_nodes(group);  // throws where nodes are unequal
  for (std::size_t place = 0; place < per_node; ++place) {
    std::vector<int> workers;
    for (const std::vector<int>& node : group.by_node) {
      workers.push_back(group.workers[static_cast<std::size_t>(node[place])]);
    }
    trees.push_back(tree_of(topology, routes, workers, 1.0 / static_cast<double>(per_node)));
  }
  return trees;
}

LinkLoads in_network_loads(const Topology& topology, Routes& routes, const RankGroup& group) {
  std::vector<Transfer> within;
  const Round inside = round_within_nodes(group);
  for (const Transfer& each : inside.transfers) {
    within.push_back({each.from, each.to, 2 * inside.repeat * each.share});  // before and after
  }
  std::vector<std::pair<int, double>> extra;
  Time latency;
  for (const SwitchTree& tree : switch_trees(topology, routes, group)) {
    for (std::size_t i = tree.up.size(); i-- > 0;) {
      const Link& link = topology.links[static_cast<std::size_t>(tree.up[i])];
      extra.emplace_back(tree.up[i], tree.share);
      if (link.reverse >= 0) extra.emplace_back(link.reverse, tree.share);
    }
    std::vector<Time> to_root(tree.up.size());
    for (std::size_t i = tree.up.size(); i-- > 0;) {
      to_root[i] = topology.links[static_cast<std::size_t>(tree.up[i])].latency;
      if (tree.parent[i] >= 0) to_root[i] += to_root[static_cast<std::size_t>(tree.parent[i])];
      latency = std::max(latency, to_root[i]);
    }
  }
  LinkLoads loads = link_loads(topology, routes, group, within, extra);
  loads.longest_latency = std::max(loads.longest_latency, latency);
  return loads;
}

}  // namespace foretrain

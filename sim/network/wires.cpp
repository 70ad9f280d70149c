#include "sim/network/wires.hpp"

#include <algorithm>

#include "sim/network/in_network.hpp"

namespace foretrain {
namespace {

RoundCost cost_of_rounds(const Topology& topology, Routes& routes, const RankGroup& ranks,
                         CollectiveKind kind, CollectiveAlgorithm algorithm) {
  std::vector<Round> all = rounds(kind, algorithm, ranks);
  if (algorithm == CollectiveAlgorithm::in_network) {
    if (const Round inside = round_within_nodes(ranks); inside.repeat > 0) all = {inside, inside};
  }
  RoundCost cost;
  for (const Round& round : all) {
    LinkLoads load = link_loads(topology, routes, ranks, round.transfers);
    (load.network_seconds_per_byte() > 0 ? cost.between : cost.inside) += round.repeat;
    cost.latency += round.repeat * load.longest_latency.in_seconds();
    cost.loads.emplace_back(round.repeat, std::move(load));
  }
  if (algorithm == CollectiveAlgorithm::in_network) {
    std::vector<std::pair<int, double>> shares;  // trees of several places in the nodes may share links
    for (const SwitchTree& tree : switch_trees(topology, routes, ranks)) {
      for (int link : tree.up) shares.emplace_back(link, tree.share);
    }
    cost.between += 2;
    cost.latency += 2 * in_network_loads(topology, routes, ranks).longest_latency.in_seconds();
    cost.loads.emplace_back(1, link_loads(topology, routes, ranks, {}, shares));
  }
  return cost;
}

}  // namespace

double RoundCost::seconds_per_byte(const WireFactors& factors) const {
  double sum = 0;
  for (const auto& [repeat, load] : loads) sum += repeat * load.seconds_per_byte(factors);
  return sum;
}

bool Wires::ByRanks::operator()(std::span<const int> a, std::span<const int> b) const {
  if (a.size() != b.size()) return a.size() < b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

GroupWires& Wires::group(std::span<const int> ranks) {
  const auto found = groups_.find(ranks);
  if (found != groups_.end()) return found->second;
  GroupWires made;
  made.ranks = rank_group(*topology_, ranks);
  return groups_.emplace(std::vector<int>(ranks.begin(), ranks.end()), std::move(made)).first->second;
}

const CountedLoads* Wires::count_pairs(GroupWires& group, CollectiveKind kind) {
  constexpr int few_ranks = 512;  // of which each pair's way is looked at
  if (kind != CollectiveKind::all_to_all || group.ranks.ranks <= few_ranks) return nullptr;
  if (!group.counted) group.counted = counted_all_to_all(*topology_, routes_, group.ranks);
  return group.counted ? &*group.counted : nullptr;
}

const LinkLoads& Wires::loads(GroupWires& group, CollectiveKind kind, CollectiveAlgorithm algorithm) {
  const auto found = group.loads.find({kind, algorithm});
  if (found != group.loads.end()) return found->second;
  LinkLoads made;
  if (const CountedLoads* counted = count_pairs(group, kind)) {
    made = link_loads(*topology_, group.ranks, counted->mean, counted->variance, counted->longest_latency);
  } else if (algorithm == CollectiveAlgorithm::in_network) {
    made = in_network_loads(*topology_, routes_, group.ranks);
  } else {
    made = link_loads(*topology_, routes_, group.ranks,
                      transfers(kind, algorithm, group.ranks, rings_of(*topology_, group.ranks)));
  }
  return group.loads.emplace(std::pair{kind, algorithm}, std::move(made)).first->second;
}

std::vector<double> Wires::shares(GroupWires& group, CollectiveKind kind, CollectiveAlgorithm algorithm) {
  if (const CountedLoads* counted = count_pairs(group, kind)) return counted->mean;
  return link_shares(*topology_, routes_, group.ranks,
                     transfers(kind, algorithm, group.ranks, rings_of(*topology_, group.ranks)));
}

const RoundCost& Wires::rounds(GroupWires& group, CollectiveKind kind, CollectiveAlgorithm algorithm) {
  const auto found = group.rounds.find({kind, algorithm});
  if (found != group.rounds.end()) return found->second;
  RoundCost made = cost_of_rounds(*topology_, routes_, group.ranks, kind, algorithm);
  return group.rounds.emplace(std::pair{kind, algorithm}, std::move(made)).first->second;
}

}  // namespace foretrain

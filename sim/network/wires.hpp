// What groups of ranks put on the links of a topology, by kind and algorithm: found once, whatever the rates.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/network/all_to_all_loads.hpp"
#include "sim/network/collectives.hpp"
#include "sim/network/link_loads.hpp"
#include "sim/network/routes.hpp"

namespace foretrain {

// Rounds one after the other: each takes its latency and its slowest link.
struct RoundCost {
  int inside = 0, between = 0;                   // rounds within nodes alone, and others
  double latency = 0;                            // of all their ways
  std::vector<std::pair<int, LinkLoads>> loads;  // with how often
  double seconds_per_byte(const WireFactors& factors) const;
};

struct GroupWires {
  RankGroup ranks;
  std::optional<CountedLoads> counted;  // of an all-to-all
  std::map<std::pair<CollectiveKind, CollectiveAlgorithm>, LinkLoads> loads;
  std::map<std::pair<CollectiveKind, CollectiveAlgorithm>, RoundCost> rounds;
};

// Keeps a reference to the topology. What it returns stays where it is.
class Wires {
 public:
  explicit Wires(const Topology& topology) : topology_(&topology), routes_(topology) {}

  // `ranks` are global ranks.
  GroupWires& group(std::span<const int> ranks);
  // Throws where no path joins two ranks that the algorithm joins.
  const LinkLoads& loads(GroupWires& group, CollectiveKind kind, CollectiveAlgorithm algorithm);
  // Bytes over S by link; of in_network those within nodes alone.
  std::vector<double> shares(GroupWires& group, CollectiveKind kind, CollectiveAlgorithm algorithm);
  const RoundCost& rounds(GroupWires& group, CollectiveKind kind, CollectiveAlgorithm algorithm);

 private:
  struct ByRanks {
    using is_transparent = void;
    bool operator()(std::span<const int> a, std::span<const int> b) const;
  };

  // Of an all-to-all of many ranks; null for others, and where its pairs cannot be counted.
  const CountedLoads* count_pairs(GroupWires& group, CollectiveKind kind);

  const Topology* topology_;
  Routes routes_;
  std::map<std::vector<int>, GroupWires, ByRanks> groups_;
};

}  // namespace foretrain

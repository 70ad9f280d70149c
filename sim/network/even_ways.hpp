// Ways over a fabric that crowd its links least: of all shortest ways between two switches the one over which
// the squares of what the links carry sum to least. Which links these ways take is found once for all pairs
// of switches with the same neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/network/fabric_ways.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

// Keeps references to both.
class EvenWays {
 public:
  EvenWays(const Topology& topology, FabricWays& fabric) : topology_(topology), fabric_(fabric) {}

  // Replaces `way` by the links of the way; of equal ones that over the links of the least numbers, seen from
  // its end. Returns the sum of the squares of `used`, by link, over it.
  std::uint64_t find(int from, int to, std::span<const std::uint32_t> used, std::vector<int>& way);

 private:
  struct Step {
    int link = 0, from = 0, to = 0;  // of the first and the last steps `link` is a place among ports
  };
  // All links of all shortest ways, in their order. First and last steps are by place among the ports of the
  // end, which its twins have too.
  struct Ways {
    std::vector<Step> first, middle, last;
  };
  struct Label {
    std::uint64_t crowding = 0;
    int link = 0, from = 0;
    int round = 0;  // valid in this one
  };

  const Ways& ways_between(int from, int to);
  Ways all_ways(int from, int to, bool& is_direct);
  const std::vector<int>& ports(int vertex, bool leaving);
  void step(int link, int from, int to, std::span<const std::uint32_t> used);

  const Topology& topology_;
  FabricWays& fabric_;
  std::unordered_map<std::uint64_t, Ways> known_;  // by the first twins of both ends
  Ways direct_;
  std::unordered_map<int, std::vector<int>> leaving_, arriving_;
  std::vector<FabricWays::Chance> chances_;
  std::vector<Label> labels_;
  int round_ = 0;
};

}  // namespace foretrain

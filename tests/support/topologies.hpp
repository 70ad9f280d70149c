// Topologies that several tests of the network ask.
#pragma once

#include <numeric>
#include <vector>

#include "sim/network/families.hpp"

namespace foretrain::test {

inline std::vector<int> all_ranks(const Topology& topology) {
  std::vector<int> ranks(topology.workers.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline Topology star(int hosts, double gigabits, double microseconds) {
  return make_topology(
      Star{hosts, Rate::bits_per_second(gigabits * 1e9), Time::microseconds(microseconds), {}});
}

}  // namespace foretrain::test

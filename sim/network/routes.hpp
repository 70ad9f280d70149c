// Shortest-path routes over a topology: fewest hops, where an NVLink, memory or network hop counts 2 and a
// PCIe hop 3; among equal ones the lower link index wins, so that a rerun takes the same way.
#pragma once

#include <memory>
#include <span>

#include "sim/network/topology.hpp"

namespace foretrain {

class Routes {
 public:
  explicit Routes(const Topology& topology);
  ~Routes();
  Routes(Routes&&) noexcept;
  Routes& operator=(Routes&&) noexcept;

  // Indices of the links from one vertex to another in order; empty where both are the same. No way there is
  // an Error that names both ends. The span holds until the Routes die. Not for use by several threads at
  // once.
  std::span<const int> between(int from, int to);

  // Sum of the latencies on the way.
  Time latency(int from, int to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretrain

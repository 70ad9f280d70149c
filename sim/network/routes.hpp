// Shortest-path routes over a topology: fewest hops, where an NVLink or memory hop counts 2, a network or
// PCIe hop 3 and one from host bridge to host bridge 5. Up and down in trees of switches follows from that.
// Among equal ones the topology's route choice decides, so that a rerun takes the same way. Workers do not
// forward, but for NVLink to NVLink, and for NVLink to a NIC near them on the sender's node (NCCL's PXN: how
// all-to-all stays on its rail); nodes do not forward for others.
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

  // The same, not remembered: the span holds until the next way is asked for.
  std::span<const int> way(int from, int to);

  // Sum of the latencies on the way.
  Time latency(int from, int to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretrain

// Shortest-path routes over a topology: fewest hops, where an NVLink or memory hop counts 2, a network or
// PCIe hop 3 and one from host bridge to host bridge 5. Up and down in trees of switches follows from that.
// Among equal ones the topology's route choice decides, so that a rerun takes the same way. Workers do not
// forward, but for NVLink to NVLink, and for NVLink to a NIC near them on the sender's node (NCCL's PXN: how
// all-to-all stays on its rail); nodes do not forward for others.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/network/fabric_ways.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

// A shortest way from a worker out of its node to a switch of the network, or from one to a worker.
struct NodeGate {
  int outside = 0;         // the switch
  int length = 0;          // as ways are counted
  std::vector<int> links;  // in the order of the way
};

// How ways between nodes are found: from what lies around their ends, which is searched once; or each by a
// search of the whole graph, as in fabrics of very many switches, and for tests.
enum class RouteSearch { by_halves, whole_graph };

class Routes {
 public:
  explicit Routes(const Topology& topology, RouteSearch search = RouteSearch::by_halves);
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

  // A way between nodes goes by one of the shortest pairs of a gate of each and a way of the fabric between
  // them; by hash all such pairs are as likely. Shortest first.
  std::vector<NodeGate> gates(int worker, bool leaving);
  FabricWays& fabric();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foretrain

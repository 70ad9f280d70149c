#include "tests/simgrid/peer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "sim/base/random.hpp"
#include "sim/network/fabrics.hpp"
#include "sim/network/families.hpp"
#include "sim/network/flows.hpp"
#include "sim/network/stepwise.hpp"

namespace foretrain {

std::vector<double> own_times(const Topology& topology, std::span<const PeerFlow> flows) {
  Routes routes(topology);
  FlowEngine engine(topology);
  for (std::size_t f = 0; f < flows.size(); ++f) {
    const int from = topology.workers[static_cast<std::size_t>(flows[f].from)];
    const int to = topology.workers[static_cast<std::size_t>(flows[f].to)];
    engine.start(engine.add_route(routes.between(from, to), routes.latency(from, to)), flows[f].bytes, f);
  }
  std::vector<double> ends(flows.size());
  std::vector<std::uint64_t> through;
  while (engine.advance(through)) {
    for (std::uint64_t f : through) ends[f] = engine.now().in_seconds();
    through.clear();
  }
  return ends;
}

double own_ring(const Topology& topology, double bytes) {
  std::vector<int> ranks(topology.workers.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  Routes routes(topology);
  return replay_stepwise(topology, routes, CollectiveKind::all_reduce, CollectiveAlgorithm::ring,
                         rank_group(topology, ranks), Bytes(static_cast<std::int64_t>(bytes)))
      .time.in_seconds();
}

Topology peer_topology(PeerShape shape, int hosts, double gigabits, double latency) {
  const Rate rate = Rate::bits_per_second(gigabits * 1e9);
  if (shape == PeerShape::star) return make_topology(Star{hosts, rate, Time::microseconds(latency), {}});
  Topology topology;
  topology.name = shape == PeerShape::fat_tree ? "fat tree" : "dragonfly";
  topology.nodes = hosts;
  topology.nics_per_node = 1;
  topology.network = {rate, Time::microseconds(latency), Transport::tcp, rate};
  std::vector<Port> ports;
  for (int h = 0; h < hosts; ++h) {
    topology.workers.push_back(add_vertex(topology, fmt::format("host{}", h), VertexKind::gpu, h));
    ports.push_back({topology.workers.back(), h, 0});
  }
  if (shape == PeerShape::fat_tree) {
    join_fat_tree(topology, ports, {});
  } else {
    const int side = hosts >= 512 ? 8 : 4;
    join_dragonfly(topology, ports, {side, side, 1});
  }
  // SimGrid weights flows by the latency of their way: the same for all, it leaves max-min.
  for (Link& link : topology.links) {
    if (class_of(topology, link) != "nic") link.latency = Time();
  }
  validate_with_names(topology);
  return topology;
}

std::vector<PeerFlow> random_flows(int hosts, int each, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<PeerFlow> flows;
  const int count = each > 0 ? each : hosts - 1;
  for (int host = 0; host < hosts; ++host) {
    for (int k = 0; k < count; ++k) {
      const int step =
          each > 0 ? 1 + static_cast<int>(random.next() % static_cast<std::uint64_t>(hosts - 1)) : k + 1;
      flows.push_back({host, (host + step) % hosts, std::floor(1e6 * (1 + 9 * random.uniform()))});
    }
  }
  return flows;
}

}  // namespace foretrain

#include "sim/network/families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::input, what);
}

// The GPUs of a node around an NVSwitch, or on the host bridges that also hold the NICs. A bridge holds one
// NIC and its share of the GPUs; with several bridges, the first is the hub between them.
struct NodeParts {
  std::vector<int> gpus;
  std::vector<int> bridges;
};

NodeParts add_node(Topology& topology, int node, int gpus, int bridges, const InsideDescription& inside) {
  const std::string prefix = fmt::format("node{}", node);
  NodeParts parts;
  for (int g = 0; g < gpus; ++g) {
    parts.gpus.push_back(add_vertex(topology, fmt::format("{}.gpu{}", prefix, g), VertexKind::gpu, node));
    topology.workers.push_back(parts.gpus.back());
  }
  if (inside.kind == InsideLink::nvlink && gpus > 1) {
    const int hub = add_vertex(topology, prefix + ".nvswitch", VertexKind::nvswitch, node);
    for (int gpu : parts.gpus) {
      add_link_pair(topology, gpu, hub,
                    {"nvlink", LinkKind::nvlink, inside.bandwidth, inside.efficiency, Time()});
    }
  }
  for (int b = 0; b < bridges; ++b) {
    parts.bridges.push_back(
        add_vertex(topology, fmt::format("{}.bridge{}", prefix, b), VertexKind::host_bridge, node));
  }
  const InsideDescription pcie = inside.kind == InsideLink::pcie ? inside : pcie_of_generation(5);
  const LinkProperties pcie_link = {"pcie", LinkKind::pcie, pcie.bandwidth, pcie.efficiency, Time()};
  for (int g = 0; g < gpus && bridges > 0; ++g) {
    const int bridge = static_cast<int>(static_cast<std::int64_t>(g) * bridges / gpus);
    add_link_pair(topology, parts.gpus[static_cast<std::size_t>(g)],
                  parts.bridges[static_cast<std::size_t>(bridge)], pcie_link);
  }
  for (int b = 1; b < bridges; ++b) {
    add_link_pair(topology, parts.bridges[0], parts.bridges[static_cast<std::size_t>(b)], pcie_link);
  }
  return parts;
}

LinkProperties network_link(const NetworkDescription& network) {
  return {"nic", LinkKind::network, network.bandwidth, transport_efficiency(network.transport),
          network.latency};
}

NetworkDescription with_defaults(NetworkDescription network) {
  if (!(network.reported.bytes_per_second() > 0)) network.reported = network.bandwidth;
  return network;
}

}  // namespace

double transport_efficiency(Transport transport) {
  return transport == Transport::tcp ? 1448.0 / 1538.0 : 24.0 / 25.0;
}

InsideDescription nvlink_of_hopper() {
  return {InsideLink::nvlink, Rate(18 * 25e9), 20.6 / 25.0};
}

InsideDescription nvlink_of_ampere() {
  return {InsideLink::nvlink, Rate(12 * 25e9), 20.0 / 25.0};
}

InsideDescription pcie_of_generation(int generation) {
  return {InsideLink::pcie, Rate(15.75e9 * std::ldexp(1.0, generation - 3)), 12.0 / 15.75};
}

Topology make_topology(const EthernetNodes& family) {
  require(family.nodes >= 1, "ethernet-nodes: nodes is at least 1");
  require(family.gpus_per_node >= 1, "ethernet-nodes: gpus_per_node is at least 1");
  require(family.nics >= 1, "ethernet-nodes: nics is at least 1");
  require(family.network.bandwidth.bytes_per_second() > 0, "ethernet-nodes: network.bandwidth is above zero");
  Topology topology;
  topology.name = "ethernet-nodes";
  topology.nodes = family.nodes;
  topology.gpus_per_node = family.gpus_per_node;
  topology.nics_per_node = family.nics;
  topology.network = with_defaults(family.network);
  const int network_switch = add_vertex(topology, "switch", VertexKind::network_switch, -1);
  for (int node = 0; node < family.nodes; ++node) {
    const NodeParts parts = add_node(topology, node, family.gpus_per_node, family.nics, family.inside);
    for (int n = 0; n < family.nics; ++n) {
      const int nic = add_vertex(topology, fmt::format("node{}.nic{}", node, n), VertexKind::nic, node);
      // A NIC's slot has at least the rate of the NIC.
      const InsideDescription pcie = pcie_of_generation(5);
      const Rate slot = std::max(pcie.bandwidth, family.network.bandwidth);
      add_link_pair(topology, parts.bridges[static_cast<std::size_t>(n)], nic,
                    {"nic slot", LinkKind::pcie, slot, 1, Time()});
      add_link_pair(topology, nic, network_switch, network_link(topology.network));
    }
  }
  validate(topology);
  return topology;
}

Topology make_topology(const NvlinkNode& family) {
  require(family.gpus_per_node >= 1, "nvlink-node: gpus_per_node is at least 1");
  require(family.nodes >= 1, "nvlink-node: nodes is at least 1");
  require(family.nodes == 1 || family.network.has_value(), "nvlink-node: more than one node needs a network");
  if (family.nodes > 1) {
    EthernetNodes joined;
    joined.nodes = family.nodes;
    joined.gpus_per_node = family.gpus_per_node;
    joined.inside = family.inside;
    joined.network = *family.network;
    Topology topology = make_topology(joined);
    topology.name = "nvlink-node";
    return topology;
  }
  Topology topology;
  topology.name = "nvlink-node";
  topology.gpus_per_node = family.gpus_per_node;
  add_node(topology, 0, family.gpus_per_node, family.inside.kind == InsideLink::pcie ? 1 : 0, family.inside);
  validate(topology);
  return topology;
}

Topology make_topology(const OneNode& family) {
  require(family.workers >= 1, "one-node: workers is at least 1");
  Topology topology;
  topology.name = "one-node";
  topology.gpus_per_node = family.workers;
  const int memory = add_vertex(topology, "node0.memory", VertexKind::host_bridge, 0);
  for (int w = 0; w < family.workers; ++w) {
    const int worker = add_vertex(topology, fmt::format("node0.cpu{}", w), VertexKind::cpu, 0);
    topology.workers.push_back(worker);
    add_link_pair(topology, worker, memory, {"memory", LinkKind::memory, family.bandwidth, 1, Time()});
  }
  validate(topology);
  return topology;
}

Topology make_topology(const Star& family) {
  require(family.hosts >= 1, "star: hosts is at least 1");
  require(family.bandwidth.bytes_per_second() > 0, "star: bandwidth is above zero");
  if (family.slow) {
    require(family.slow->host >= 0 && family.slow->host < family.hosts,
            "star: slow.host counts from 0 and is below hosts");
    require(family.slow->bandwidth.bytes_per_second() > 0, "star: slow.bandwidth is above zero");
  }
  Topology topology;
  topology.name = "star";
  topology.nodes = family.hosts;
  topology.nics_per_node = 1;
  topology.network = {family.bandwidth, family.latency, Transport::tcp, family.bandwidth};
  const int hub = add_vertex(topology, "switch", VertexKind::network_switch, -1);
  for (int h = 0; h < family.hosts; ++h) {
    const int host = add_vertex(topology, fmt::format("host{}", h), VertexKind::gpu, h);
    topology.workers.push_back(host);
    const bool is_slow = family.slow && family.slow->host == h;
    add_link_pair(topology, host, hub,
                  {is_slow ? "slow host" : "host", LinkKind::network,
                   is_slow ? family.slow->bandwidth : family.bandwidth, 1, family.latency});
  }
  validate(topology);
  return topology;
}

}  // namespace foretrain

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

struct NodeParts {
  std::vector<int> gpus;
  std::vector<int> nics;
};

int share_of(int index, int count, int parts) {
  return static_cast<int>(static_cast<std::int64_t>(index) * parts / count);
}

LinkProperties nvlink(const InsideDescription& inside, double share) {
  return {"nvlink", LinkKind::nvlink, inside.bandwidth * share, inside.efficiency, Time()};
}

void add_nvlinks(Topology& topology, const std::string& prefix, const std::vector<int>& gpus, int node,
                 const InsideDescription& inside) {
  if (gpus.size() < 2) return;
  if (inside.kind == InsideLink::nvlink) {
    const int hub = add_vertex(topology, prefix + ".nvswitch", VertexKind::nvswitch, node);
    for (int gpu : gpus) add_link_pair(topology, gpu, hub, nvlink(inside, 1));
  } else if (inside.kind == InsideLink::nvlink_pairs) {
    for (std::size_t g = 0; g + 1 < gpus.size(); g += 2) {
      add_link_pair(topology, gpus[g], gpus[g + 1], nvlink(inside, 1));
    }
  } else if (inside.kind == InsideLink::nvlink_mesh) {
    // Links between the GPUs of a DGX-1 with V100, six of each (nvidia-smi topo -m).
    constexpr int mesh[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                               {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                               {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    for (const auto& [a, b, links] : mesh) {
      const auto most = static_cast<int>(gpus.size());
      if (a >= most || b >= most) continue;
      add_link_pair(topology, gpus[static_cast<std::size_t>(a)], gpus[static_cast<std::size_t>(b)],
                    nvlink(inside, links / 6.0));
    }
  }
}

LinkProperties pcie(const InsideDescription& inside) {
  const InsideDescription own =
      inside.kind == InsideLink::pcie ? inside : pcie_of_generation(inside.pcie_generation);
  return {"pcie", LinkKind::pcie, own.bandwidth, own.efficiency, Time()};
}

// What holds GPUs and NICs: PCIe switches on their host bridges, or a host bridge for each NIC. Bridges meet
// in the first.
std::vector<int> add_pcie_tree(Topology& topology, const std::string& prefix, int node, int nics,
                               const InsideDescription& inside) {
  const int count = inside.pcie_switches > 0 ? std::max(1, inside.host_bridges) : nics;
  std::vector<int> bridges;
  for (int b = 0; b < count; ++b) {
    bridges.push_back(
        add_vertex(topology, fmt::format("{}.bridge{}", prefix, b), VertexKind::host_bridge, node));
  }
  std::vector<int> holders = bridges;
  if (inside.pcie_switches > 0) {
    holders.clear();
    for (int s = 0; s < inside.pcie_switches; ++s) {
      holders.push_back(
          add_vertex(topology, fmt::format("{}.pcie{}", prefix, s), VertexKind::pcie_switch, node));
      add_link_pair(topology, holders.back(),
                    bridges[static_cast<std::size_t>(share_of(s, inside.pcie_switches, count))],
                    pcie(inside));
    }
  }
  return holders;
}

void join_bridges(Topology& topology, int first_vertex, const InsideDescription& inside) {
  int hub = -1;
  for (int v = first_vertex; v < static_cast<int>(topology.vertices.size()); ++v) {
    if (topology.vertices[static_cast<std::size_t>(v)].kind != VertexKind::host_bridge) continue;
    if (hub >= 0) add_link_pair(topology, hub, v, pcie(inside));
    if (hub < 0) hub = v;
  }
}

// The GPUs of a node, what joins them, and the NICs in their slots; without NICs PCIe only where it is
// needed.
NodeParts add_node(Topology& topology, int node, int gpus, int nics, const InsideDescription& inside,
                   Rate nic_rate) {
  const std::string prefix = fmt::format("node{}", node);
  const auto first_vertex = static_cast<int>(topology.vertices.size());
  NodeParts parts;
  for (int g = 0; g < gpus; ++g) {
    parts.gpus.push_back(add_vertex(topology, fmt::format("{}.gpu{}", prefix, g), VertexKind::gpu, node));
    topology.workers.push_back(parts.gpus.back());
  }
  add_nvlinks(topology, prefix, parts.gpus, node, inside);
  if (nics == 0 && inside.kind == InsideLink::nvlink && inside.pcie_switches == 0) return parts;
  const std::vector<int> holders = add_pcie_tree(topology, prefix, node, std::max(1, nics), inside);
  const auto count = static_cast<int>(holders.size());
  for (int g = 0; g < gpus; ++g) {
    add_link_pair(topology, parts.gpus[static_cast<std::size_t>(g)],
                  holders[static_cast<std::size_t>(share_of(g, gpus, count))], pcie(inside));
  }
  join_bridges(topology, first_vertex, inside);
  for (int n = 0; n < nics; ++n) {
    parts.nics.push_back(add_vertex(topology, fmt::format("{}.nic{}", prefix, n), VertexKind::nic, node));
    // A NIC's slot has at least the rate of the NIC.
    const Rate slot = std::max(pcie_of_generation(inside.pcie_generation).bandwidth, nic_rate);
    add_link_pair(topology, holders[static_cast<std::size_t>(share_of(n, nics, count))], parts.nics.back(),
                  {"nic slot", LinkKind::pcie, slot, 1, Time()});
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

const char* name_of(InsideLink kind) {
  switch (kind) {
    case InsideLink::nvlink:
      return "nvlink";
    case InsideLink::nvlink_mesh:
      return "nvlink-mesh";
    case InsideLink::nvlink_pairs:
      return "nvlink-pairs";
    case InsideLink::pcie:
      return "pcie";
  }
  return "?";
}

InsideDescription nvlink_of_volta() {
  return {InsideLink::nvlink_mesh, Rate(6 * 25e9), 20.0 / 25.0, 3};
}

InsideDescription nvlink_of_ampere() {
  return {InsideLink::nvlink, Rate(12 * 25e9), 20.0 / 25.0};
}

InsideDescription pcie_of_generation(int generation) {
  return {InsideLink::pcie, Rate(15.75e9 * std::ldexp(1.0, generation - 3)), 12.0 / 15.75, generation};
}

namespace {

// Nodes without what joins them, and their NICs as ports.
Topology nodes_of(const EthernetNodes& family, const char* name, std::vector<Port>& ports) {
  auto check = [name](bool holds, const char* what) {
    if (!holds) throw Error(ErrorKind::input, fmt::format("{}: {}", name, what));
  };
  check(family.nodes >= 1, "nodes is at least 1");
  check(family.gpus_per_node >= 1, "gpus_per_node is at least 1");
  check(family.nics >= 1, "nics is at least 1");
  check(family.network.bandwidth.bytes_per_second() > 0, "network.bandwidth is above zero");
  Topology topology;
  topology.name = name;
  topology.nodes = family.nodes;
  topology.gpus_per_node = family.gpus_per_node;
  topology.nics_per_node = family.nics;
  topology.network = with_defaults(family.network);
  for (int node = 0; node < family.nodes; ++node) {
    const NodeParts parts =
        add_node(topology, node, family.gpus_per_node, family.nics, family.inside, family.network.bandwidth);
    for (int n = 0; n < family.nics; ++n) ports.push_back({parts.nics[static_cast<std::size_t>(n)], node, n});
    if (node > 0) continue;
    // All nodes are like the first; a few links a NIC join them.
    const auto nodes = static_cast<std::size_t>(family.nodes);
    topology.vertices.reserve(nodes * (topology.vertices.size() + 1));
    topology.links.reserve(nodes * (topology.links.size() + 6 * ports.size()));
  }
  return topology;
}

template <class... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};
template <class... Each>
Overloaded(Each...) -> Overloaded<Each...>;

}  // namespace

Topology make_topology(const EthernetNodes& family) {
  std::vector<Port> ports;
  Topology topology = nodes_of(family, "ethernet-nodes", ports);
  const int network_switch = add_vertex(topology, "switch", VertexKind::network_switch, -1);
  for (const Port& port : ports)
    add_link_pair(topology, port.vertex, network_switch, network_link(topology.network));
  validate(topology);
  return topology;
}

Topology make_topology(const FabricNodes& family) {
  std::vector<Port> ports;
  Topology topology = nodes_of(family.nodes, "fabric", ports);
  std::visit(Overloaded{[&](const LeafSpineShape& shape) { join_leaf_spine(topology, ports, shape); },
                        [&](const FatTreeShape& shape) { join_fat_tree(topology, ports, shape); },
                        [&](const RailShape& shape) { join_rails(topology, ports, shape); },
                        [&](const DragonflyShape& shape) { join_dragonfly(topology, ports, shape); },
                        [&](const Torus& shape) { join_torus(topology, ports, shape.sides); },
                        [&](const WanShape& shape) { join_sites(topology, ports, shape); }},
             family.shape);
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
  add_node(topology, 0, family.gpus_per_node, 0, family.inside, Rate());
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

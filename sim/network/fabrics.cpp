#include "sim/network/fabrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/network/families.hpp"

namespace foretrain {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorKind::input, what);
}

int divided_up(int a, int b) {
  return (a + b - 1) / b;
}

int add_switch(Topology& topology, std::string name) {
  return add_vertex(topology, std::move(name), VertexKind::network_switch, -1);
}

LinkProperties port_link(const Topology& topology) {
  const NetworkDescription& network = topology.network;
  return {"nic", LinkKind::network, network.bandwidth, transport_efficiency(network.transport),
          network.latency};
}

LinkProperties switch_link(const Topology& topology, const char* link_class, double rate_over_port) {
  LinkProperties properties = port_link(topology);
  properties.link_class = link_class;
  properties.rate = properties.rate * rate_over_port;
  return properties;
}

void join_port(Topology& topology, const Port& port, int to) {
  add_link_pair(topology, port.vertex, to, port_link(topology));
}

// Joins each leaf to every spine; `below` ports hang on a leaf.
void join_spines(Topology& topology, std::span<const int> leaves, int below, int spines,
                 double oversubscription) {
  require(oversubscription > 0, "oversubscription is above zero");
  if (leaves.size() < 2) return;
  const int count = spines > 0 ? spines : std::max(1, static_cast<int>(std::ceil(below / oversubscription)));
  const LinkProperties uplink = switch_link(topology, "uplink", below / oversubscription / count);
  for (int s = 0; s < count; ++s) {
    const int spine = add_switch(topology, fmt::format("spine{}", s));
    for (int leaf : leaves) add_link_pair(topology, leaf, spine, uplink);
  }
}

}  // namespace

void join_leaf_spine(Topology& topology, std::span<const Port> ports, const LeafSpineShape& shape) {
  require(shape.ports_per_leaf >= 1, "a leaf has at least 1 port");
  std::vector<int> leaves;
  for (std::size_t p = 0; p < ports.size(); ++p) {
    if (p % static_cast<std::size_t>(shape.ports_per_leaf) == 0) {
      leaves.push_back(add_switch(topology, fmt::format("leaf{}", leaves.size())));
    }
    join_port(topology, ports[p], leaves.back());
  }
  join_spines(topology, leaves, shape.ports_per_leaf, shape.spines, shape.oversubscription);
}

void join_fat_tree(Topology& topology, std::span<const Port> ports, const FatTreeShape& shape) {
  require(shape.oversubscription > 0 && shape.core_oversubscription > 0, "oversubscription is above zero");
  int half_radix = 1;
  while (2.0 * half_radix * half_radix * half_radix < static_cast<double>(ports.size())) ++half_radix;
  // A node's ports stand on one leaf.
  int of_a_node = 1;
  for (const Port& port : ports) of_a_node = std::max(of_a_node, port.rail + 1);
  const int below =
      shape.ports_per_leaf > 0 ? shape.ports_per_leaf : divided_up(half_radix, of_a_node) * of_a_node;
  const int in_pod = shape.leaves_per_pod > 0 ? shape.leaves_per_pod : half_radix;
  const int columns = std::max(1, static_cast<int>(std::ceil(below / shape.oversubscription)));
  const double up = below / shape.oversubscription / columns;  // of a leaf's uplink, over a port
  const int leaves = divided_up(static_cast<int>(ports.size()), below);
  const int pods = divided_up(leaves, in_pod);
  const LinkProperties leaf_uplink = switch_link(topology, "leaf uplink", up);
  std::vector<std::vector<int>> of_column(static_cast<std::size_t>(columns));
  for (int pod = 0; pod < pods; ++pod) {
    std::vector<int> pod_leaves;
    for (int l = pod * in_pod; l < std::min(leaves, (pod + 1) * in_pod); ++l) {
      pod_leaves.push_back(add_switch(topology, fmt::format("pod{}.leaf{}", pod, l - pod * in_pod)));
      const int last = std::min(static_cast<int>(ports.size()), (l + 1) * below);
      for (int p = l * below; p < last; ++p) {
        join_port(topology, ports[static_cast<std::size_t>(p)], pod_leaves.back());
      }
    }
    if (leaves < 2) return;
    for (int c = 0; c < columns; ++c) {
      const int aggregation = add_switch(topology, fmt::format("pod{}.aggregation{}", pod, c));
      of_column[static_cast<std::size_t>(c)].push_back(aggregation);
      for (int leaf : pod_leaves) add_link_pair(topology, leaf, aggregation, leaf_uplink);
    }
  }
  if (pods < 2) return;
  const int cores = std::max(1, static_cast<int>(std::ceil(in_pod / shape.core_oversubscription)));
  const LinkProperties core_uplink =
      switch_link(topology, "core uplink", up * in_pod / shape.core_oversubscription / cores);
  for (int c = 0; c < columns; ++c) {
    for (int k = 0; k < cores; ++k) {
      const int core = add_switch(topology, fmt::format("core{}.{}", c, k));
      for (int aggregation : of_column[static_cast<std::size_t>(c)]) {
        add_link_pair(topology, aggregation, core, core_uplink);
      }
    }
  }
}

void join_rails(Topology& topology, std::span<const Port> ports, const RailShape& shape) {
  std::map<std::pair<int, int>, int> leaf_of;  // (group of nodes, rail)
  std::vector<int> leaves;
  int nodes = 0;
  for (const Port& port : ports) nodes = std::max(nodes, port.node + 1);
  const int below = shape.nodes_per_leaf > 0 ? shape.nodes_per_leaf : nodes;
  for (const Port& port : ports) {
    const auto [at, is_new] = leaf_of.try_emplace({port.node / below, port.rail}, -1);
    if (is_new) {
      at->second =
          add_switch(topology, nodes > below ? fmt::format("rail{}.leaf{}", port.rail, port.node / below)
                                             : fmt::format("rail{}", port.rail));
      leaves.push_back(at->second);
    }
    join_port(topology, port, at->second);
  }
  if (shape.has_spines) {
    return join_spines(topology, leaves, below, shape.spines, shape.oversubscription);
  }
  // Within a rail, several leaves are joined by spines of their own.
  std::map<int, std::vector<int>> of_rail;
  for (const auto& [where, leaf] : leaf_of) of_rail[where.second].push_back(leaf);
  for (const auto& [rail, own] : of_rail) {
    if (own.size() < 2) continue;
    const int spine = add_switch(topology, fmt::format("rail{}.spine", rail));
    const LinkProperties uplink = switch_link(topology, "uplink", below / shape.oversubscription);
    for (int leaf : own) add_link_pair(topology, leaf, spine, uplink);
  }
}

void join_dragonfly(Topology& topology, std::span<const Port> ports, const DragonflyShape& shape) {
  require(shape.ports_per_router >= 1 && shape.routers_per_group >= 1 && shape.links_between_groups >= 1,
          "a dragonfly has at least 1 port a router, 1 router a group and 1 link between groups");
  const int a = shape.routers_per_group;
  const int in_group = a * shape.ports_per_router;
  const int groups = divided_up(static_cast<int>(ports.size()), in_group);
  std::vector<int> routers;
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < a; ++r)
      routers.push_back(add_switch(topology, fmt::format("group{}.router{}", g, r)));
  }
  for (std::size_t p = 0; p < ports.size(); ++p) {
    join_port(topology, ports[p], routers[p / static_cast<std::size_t>(shape.ports_per_router)]);
  }
  auto router = [&](int group, int index) {
    return routers[static_cast<std::size_t>(group * a + index % a)];
  };
  const LinkProperties local = switch_link(topology, "local", 1), global = switch_link(topology, "global", 1);
  for (int g = 0; g < groups; ++g) {
    for (int r = 0; r < a; ++r) {
      for (int other = r + 1; other < a; ++other) {
        add_link_pair(topology, router(g, r), router(g, other), local);
      }
    }
  }
  // Ports to other groups are dealt to the routers of a group in turn, by the distance of the other group.
  for (int k = 0; k < shape.links_between_groups; ++k) {
    for (int g = 0; g < groups; ++g) {
      for (int other = g + 1; other < groups; ++other) {
        const int there = other - g - 1 + k * (groups - 1),
                  back = groups - (other - g) - 1 + k * (groups - 1);
        add_link_pair(topology, router(g, there), router(other, back), global);
      }
    }
  }
}

void join_torus(Topology& topology, std::span<const Port> ports, std::span<const int> sides) {
  require(!sides.empty() && sides.size() <= 3, "a torus has one to three sides");
  int nodes = 1;
  for (int side : sides) {
    require(side >= 1, "a side of a torus is at least 1");
    nodes *= side;
  }
  int most = 0;
  for (const Port& port : ports) most = std::max(most, port.node + 1);
  require(most == nodes, "the sides of a torus multiplied are its number of nodes");
  std::vector<int> switches;
  for (int n = 0; n < nodes; ++n) switches.push_back(add_switch(topology, fmt::format("node{}.router", n)));
  for (const Port& port : ports) join_port(topology, port, switches[static_cast<std::size_t>(port.node)]);
  const LinkProperties link = switch_link(topology, "torus", 1);
  for (int n = 0; n < nodes; ++n) {
    int stride = 1;
    for (int side : sides) {
      const int place = n / stride % side;
      const int next = n + ((place + 1) % side - place) * stride;
      const bool is_second = side == 2 && place == 1;
      if (side > 1 && !is_second) {
        add_link_pair(topology, switches[static_cast<std::size_t>(n)],
                      switches[static_cast<std::size_t>(next)], link);
      }
      stride *= side;
    }
  }
}

void join_sites(Topology& topology, std::span<const Port> ports, const WanShape& shape) {
  require(shape.sites >= 1, "wan: sites is at least 1");
  int nodes = 0;
  for (const Port& port : ports) nodes = std::max(nodes, port.node + 1);
  if (shape.sites > nodes) {
    throw Error(ErrorKind::input, fmt::format("wan: {} sites have only {} node{}: a site has at least one",
                                              shape.sites, nodes, nodes == 1 ? "" : "s"));
  }
  std::vector<int> sites;
  for (int s = 0; s < shape.sites; ++s) {
    sites.push_back(add_switch(topology, fmt::format("site{}", s)));
  }
  for (const Port& port : ports) {
    join_port(topology, port, sites[static_cast<std::size_t>(std::int64_t{port.node} * shape.sites / nodes)]);
  }
  LinkProperties wide = switch_link(topology, "wan", 1);
  if (shape.bandwidth.bytes_per_second() > 0) wide.rate = shape.bandwidth;
  wide.latency = shape.latency;
  for (std::size_t a = 0; a < sites.size(); ++a) {
    for (std::size_t b = a + 1; b < sites.size(); ++b) add_link_pair(topology, sites[a], sites[b], wide);
  }
}

}  // namespace foretrain

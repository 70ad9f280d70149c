#include "sim/network/fabrics.hpp"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <set>

#include "sim/base/error.hpp"
#include "sim/network/families.hpp"
#include "sim/network/flows.hpp"
#include "sim/network/link_loads.hpp"
#include "sim/network/routes.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

EthernetNodes nodes_of(int nodes, int gpus, int nics) {
  EthernetNodes made;
  made.nodes = nodes;
  made.gpus_per_node = gpus;
  made.nics = nics;
  made.network = {Rate(10e9), Time::microseconds(1), Transport::rdma, {}};
  return made;
}

int count(const Topology& topology, const std::string& link_class) {
  int links = 0;
  for (const Link& link : topology.links) links += class_of(topology, link) == link_class;
  return links / 2;
}

Rate rate_of(const Topology& topology, const std::string& link_class) {
  for (const Link& link : topology.links) {
    if (class_of(topology, link) == link_class) return link.rate;
  }
  return {};
}

// Seconds of S = 1 byte by the busiest link of the network.
double pace(const Topology& topology, CollectiveKind kind) {
  std::vector<int> ranks(topology.workers.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const RankGroup group = rank_group(topology, ranks);
  Routes routes(topology);
  const auto all = transfers(kind, default_algorithm(kind), group, topology.nics_per_node);
  return link_loads(topology, routes, group, all).network_seconds_per_byte();
}

}  // namespace

// 16 ports, 4 a leaf: 4 leaves; at 1 four spines of port speed, at 2 two; with three spines each uplink has
// 4 ports x rate / 3.
TEST_CASE("leaf and spine: counts and rates follow the oversubscription") {
  const Topology even = make_topology(FabricNodes{nodes_of(16, 1, 1), LeafSpineShape{4, 0, 1}});
  CHECK(count(even, "uplink") == 16);
  CHECK(rate_of(even, "uplink").bytes_per_second() == approx(10e9));
  const Topology over = make_topology(FabricNodes{nodes_of(16, 1, 1), LeafSpineShape{4, 0, 2}});
  CHECK(count(over, "uplink") == 8);
  const Topology three = make_topology(FabricNodes{nodes_of(16, 1, 1), LeafSpineShape{4, 3, 1}});
  CHECK(rate_of(three, "uplink").bytes_per_second() == approx(40e9 / 3));
}

// Radix 4: 2 ports a leaf, 2 leaves a pod, 16 hosts in 4 pods, 2 aggregation switches a pod, 4 cores.
TEST_CASE("a fat tree of radix 4 is that of the textbook") {
  const Topology tree = make_topology(FabricNodes{nodes_of(16, 1, 1), FatTreeShape{}});
  int cores = 0, aggregations = 0, leaves = 0;
  for (const Vertex& vertex : tree.vertices) {
    cores += vertex.name.starts_with("core");
    aggregations += vertex.name.find("aggregation") != std::string::npos;
    leaves += vertex.name.find("leaf") != std::string::npos;
  }
  CHECK(cores == 4);
  CHECK(aggregations == 8);
  CHECK(leaves == 8);
  CHECK(count(tree, "core uplink") == 16);
  // Up and down: host to host of another pod crosses nic, leaf, core, core, leaf, nic.
  Routes routes(tree);
  std::vector<std::string> classes;
  for (int link : routes.between(tree.workers[0], tree.workers[15])) {
    const Link& crossed = tree.links[static_cast<std::size_t>(link)];
    if (crossed.kind == LinkKind::network) classes.push_back(class_of(tree, crossed));
  }
  CHECK(classes ==
        std::vector<std::string>{"nic", "leaf uplink", "core uplink", "core uplink", "leaf uplink", "nic"});
  const Topology over = make_topology(FabricNodes{nodes_of(16, 1, 1), FatTreeShape{0, 0, 1, 2}});
  CHECK(count(over, "core uplink") == 8);
}

// 32 ports fit a radix of 6, three a leaf; eight a leaf, since a node's ports stand together: with fewer, all
// rings of two neighbouring nodes would meet at the one leaf that both touch.
TEST_CASE("all ports of a node stand on one leaf of a fat tree") {
  const Topology tree = make_topology(FabricNodes{nodes_of(4, 8, 8), FatTreeShape{}});
  std::map<int, std::set<int>> leaves_of;
  for (const Link& link : tree.links) {
    const Vertex& from = tree.vertices[static_cast<std::size_t>(link.from)];
    if (link.kind == LinkKind::network && from.kind == VertexKind::nic) leaves_of[from.node].insert(link.to);
  }
  REQUIRE(leaves_of.size() == 4);
  for (const auto& [node, leaves] : leaves_of) CHECK(leaves.size() == 1);
  const Topology star = make_topology(nodes_of(4, 8, 8));
  // The hash lets some of eight rings meet on an uplink, not all.
  CHECK(pace(tree, CollectiveKind::all_reduce) <= 4 * pace(star, CollectiveKind::all_reduce));
}

TEST_CASE("equal ways: a hash by seed, spread evenly, or the first") {
  EthernetNodes nodes = nodes_of(16, 1, 1);
  auto used = [&](RouteChoice choice, std::uint64_t seed) {
    nodes.network.routes = choice;
    nodes.network.route_seed = seed;
    const Topology topology = make_topology(FabricNodes{nodes, LeafSpineShape{8, 4, 1}});
    Routes routes(topology);
    std::map<int, int> by_spine;
    for (std::size_t from = 0; from < 8; ++from) {
      for (std::size_t to = 8; to < 16; ++to) {
        for (int link : routes.between(topology.workers[from], topology.workers[to])) {
          const Link& crossed = topology.links[static_cast<std::size_t>(link)];
          if (topology.vertices[static_cast<std::size_t>(crossed.to)].name.starts_with("spine")) {
            ++by_spine[crossed.to];
          }
        }
      }
    }
    return by_spine;
  };
  CHECK(used(RouteChoice::first, 1).size() == 1);
  const auto spread = used(RouteChoice::spread, 1);
  CHECK(spread.size() == 4);
  for (const auto& [spine, ways] : spread) CHECK(ways == 16);
  const auto hashed = used(RouteChoice::hash, 1);
  CHECK(hashed.size() == 4);
  for (const auto& [spine, ways] : hashed) CHECK(ways >= 6);
  CHECK(used(RouteChoice::hash, 1) == hashed);
  CHECK(used(RouteChoice::hash, 2) != hashed);
}

TEST_CASE("rails: a GPU reaches its like on its rail, another by NVLink on its own node first") {
  for (const bool has_spines : {true, false}) {
    const Topology rails = make_topology(FabricNodes{nodes_of(4, 4, 4), RailShape{0, has_spines, 0, 1}});
    Routes routes(rails);
    auto way = [&](std::size_t from, std::size_t to) {
      std::string text;
      for (int link : routes.between(rails.workers[from], rails.workers[to])) {
        text +=
            rails.vertices[static_cast<std::size_t>(rails.links[static_cast<std::size_t>(link)].to)].name +
            ' ';
      }
      return text;
    };
    CHECK(way(1, 5) == "node0.bridge1 node0.nic1 rail1 node1.nic1 node1.bridge1 node1.gpu1 ");
    CHECK(way(1, 7) ==
          "node0.nvswitch node0.gpu3 node0.bridge3 node0.nic3 rail3 node1.nic3 node1.bridge3 node1.gpu3 ");
  }
}

TEST_CASE("a dragonfly joins all groups, and none twice") {
  const Topology topology = make_topology(FabricNodes{nodes_of(36, 1, 1), DragonflyShape{2, 3, 1}});
  CHECK(count(topology, "local") == 6 * 3);
  CHECK(count(topology, "global") == 6 * 5 / 2);
  std::map<std::string, int> ports;
  for (const Link& link : topology.links) {
    if (class_of(topology, link) == "global")
      ++ports[topology.vertices[static_cast<std::size_t>(link.from)].name];
  }
  for (const auto& [router, links] : ports) CHECK(links <= 2);  // 5 others over 3 routers
}

TEST_CASE("a torus has two neighbours a side, a side of two has one") {
  CHECK(count(make_topology(FabricNodes{nodes_of(24, 1, 1), Torus{{4, 3, 2}}}), "torus") == 24 + 24 + 12);
  CHECK(count(make_topology(FabricNodes{nodes_of(5, 1, 1), Torus{{5}}}), "torus") == 5);
  CHECK_THROWS_WITH_AS(make_topology(FabricNodes{nodes_of(5, 1, 1), Torus{{2, 2}}}),
                       doctest::Contains("multiplied"), Error);
}

TEST_CASE("sites share one link of the wide area") {
  const Topology topology =
      make_topology(FabricNodes{nodes_of(8, 1, 1), WanShape{2, Rate(1e9), Time::seconds(0.01)}});
  CHECK(count(topology, "wan") == 1);
  Routes routes(topology);
  CHECK(routes.latency(topology.workers[0], topology.workers[7]) ==
        Time::seconds(0.01) + Time::microseconds(2));
}

TEST_CASE("a thinner fabric slows what crosses it, and nothing else") {
  const auto at = [](double oversubscription) {
    return make_topology(FabricNodes{nodes_of(16, 1, 1), LeafSpineShape{4, 1, oversubscription}});
  };
  // All-to-all: 4 x 12 of 16 parts leave a leaf over 4/o ports' rate; 15 of 16 leave a port.
  const double port = 15.0 / 16 / (10e9 * 0.96);
  CHECK(pace(at(1), CollectiveKind::all_to_all) == approx(port));
  CHECK(pace(at(4), CollectiveKind::all_to_all) == approx(4.0 * 12 / 16 / (10e9 * 0.96)));
  // A ring leaves each leaf once.
  CHECK(pace(at(4), CollectiveKind::all_reduce) == approx(pace(at(1), CollectiveKind::all_reduce)));
}

TEST_CASE("the DGX-1's mesh has six links a GPU; a PCIe tree meets at switch, socket, bridge") {
  EthernetNodes nodes = nodes_of(2, 8, 4);
  nodes.inside = nvlink_of_volta();
  nodes.inside.pcie_switches = 4;
  nodes.inside.host_bridges = 2;
  const Topology dgx = make_topology(nodes);
  std::map<int, double> by_gpu;
  for (const Link& link : dgx.links) {
    if (link.kind == LinkKind::nvlink) by_gpu[link.from] += link.rate.bytes_per_second();
  }
  CHECK(by_gpu.size() == 16);
  for (const auto& [gpu, rate] : by_gpu) CHECK(rate == approx(150e9));
  nodes.inside.kind = InsideLink::pcie;
  const Topology tree = make_topology(nodes);
  Routes routes(tree);
  auto hops = [&](int a, int b) {
    return routes
        .between(tree.workers[static_cast<std::size_t>(a)], tree.workers[static_cast<std::size_t>(b)])
        .size();
  };
  CHECK(hops(0, 1) == 2);  // one switch
  CHECK(hops(0, 2) == 4);  // one socket
  CHECK(hops(0, 4) == 5);  // both
}

TEST_CASE("no family gives two vertices one name") {
  const EthernetNodes nodes = nodes_of(8, 2, 2);
  CHECK_NOTHROW(validate_with_names(make_topology(nodes)));
  for (const FabricNodes& family :
       {FabricNodes{nodes, LeafSpineShape{2, 0, 1}}, FabricNodes{nodes, FatTreeShape{}},
        FabricNodes{nodes, RailShape{2, true, 0, 1}}, FabricNodes{nodes, RailShape{2, false, 0, 1}},
        FabricNodes{nodes, DragonflyShape{2, 2, 1}}, FabricNodes{nodes, Torus{{2, 4}}},
        FabricNodes{nodes, WanShape{2, Rate(1e9), Time::seconds(0.01)}}}) {
    CHECK_NOTHROW(validate_with_names(make_topology(family)));
  }
}

#include "sim/network/routes.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/network/families.hpp"

using namespace foretrain;

namespace {

EthernetNodes two_nodes_of_four() {
  EthernetNodes family;
  family.nodes = 2;
  family.gpus_per_node = 4;
  family.nics = 2;
  family.network = {Rate::bits_per_second(25e9), Time::microseconds(30), Transport::tcp, {}};
  return family;
}

std::string way(const Topology& topology, Routes& routes, const char* from, const char* to) {
  std::string text;
  for (int link : routes.between(find_vertex(topology, from), find_vertex(topology, to))) {
    if (!text.empty()) text += ' ';
    text += name_of(topology, topology.links[static_cast<std::size_t>(link)]);
  }
  return text;
}

}  // namespace

TEST_CASE("GPUs of a node meet at the NVSwitch, of two nodes at the switch, by the nearest NIC") {
  const Topology topology = make_topology(two_nodes_of_four());
  Routes routes(topology);
  CHECK(way(topology, routes, "node0.gpu0", "node0.gpu3") ==
        "node0.gpu0>node0.nvswitch node0.nvswitch>node0.gpu3");
  CHECK(way(topology, routes, "node0.gpu3", "node1.gpu0") ==
        "node0.gpu3>node0.bridge1 node0.bridge1>node0.nic1 node0.nic1>switch switch>node1.nic0 "
        "node1.nic0>node1.bridge0 node1.bridge0>node1.gpu0");
  CHECK(routes.between(3, 3).empty());
}

TEST_CASE("a message from node to node over a switch crosses two links of the network") {
  const Topology topology = make_topology(two_nodes_of_four());
  Routes routes(topology);
  CHECK(routes.latency(topology.workers[0], topology.workers[4]) == Time::microseconds(60));
  CHECK(routes.latency(topology.workers[0], topology.workers[1]) == Time());
}

TEST_CASE("cutting the only path is an error that names it") {
  Topology topology = make_topology(two_nodes_of_four());
  std::erase_if(topology.links, [&](const Link& link) {
    const std::string name = name_of(topology, link);
    return name == "node1.nic0>switch" || name == "node1.nic1>switch";
  });
  Routes routes(topology);
  CHECK_THROWS_WITH_AS(routes.between(topology.workers[4], topology.workers[0]),
                       doctest::Contains("no way from 'node1.gpu0' to 'node0.gpu0'"), Error);
  CHECK(routes.between(topology.workers[0], topology.workers[4]).size() == 6);
}

TEST_CASE("a broken topology is refused with every finding") {
  Topology topology = make_topology(two_nodes_of_four());
  topology.links[0].rate = Rate();
  topology.vertices[1].name = topology.vertices[0].name;
  topology.workers.push_back(topology.workers[0]);
  try {
    validate_with_names(topology);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.diagnostics().size() == 3);
  }
}

// Ways put together from what lies around switches against those searched one by one.
TEST_CASE("ways between nodes are as short by the fabric's halves as by a search of the whole graph") {
  EthernetNodes nodes = two_nodes_of_four();
  nodes.nodes = 12;
  for (const FabricShape& shape :
       {FabricShape(LeafSpineShape{4, 3, 2}), FabricShape(FatTreeShape{}),
        FabricShape(RailShape{6, true, 2, 1}), FabricShape(RailShape{0, false, 0, 1}),
        FabricShape(DragonflyShape{4, 3, 1}), FabricShape(Torus{{3, 4}}), FabricShape(Torus{{12}}),
        FabricShape(WanShape{3, Rate(1e9), Time(5)})}) {
    auto ways_of = [&](RouteChoice choice, RouteSearch search, auto visit) {
      nodes.network.routes = choice;
      const Topology topology = make_topology(FabricNodes{nodes, shape});
      Routes routes(topology, search);
      for (std::size_t a = 0; a < topology.workers.size(); a += 3) {
        for (std::size_t b = 0; b < topology.workers.size(); ++b) {
          if (a != b) visit(topology, a, b, routes.between(topology.workers[a], topology.workers[b]));
        }
      }
    };
    // As routes.hpp gives them: no bridges with links to each other here.
    auto length = [](const Topology& topology, std::span<const int> way) {
      int sum = 0;
      for (int link : way) {
        const LinkKind kind = topology.links[static_cast<std::size_t>(link)].kind;
        sum += kind == LinkKind::network || kind == LinkKind::pcie ? 3 : 2;
      }
      return sum;
    };
    std::map<std::pair<std::size_t, std::size_t>, int> searched;
    ways_of(RouteChoice::first, RouteSearch::whole_graph,
            [&](const Topology& topology, std::size_t a, std::size_t b, auto way) {
              searched[{a, b}] = length(topology, way);
            });
    for (const RouteChoice choice : {RouteChoice::hash, RouteChoice::first, RouteChoice::spread}) {
      ways_of(choice, RouteSearch::by_halves,
              [&](const Topology& topology, std::size_t a, std::size_t b, auto way) {
                CHECK(length(topology, way) == searched[{a, b}]);
                int here = topology.workers[a];
                for (int link : way) {
                  REQUIRE(topology.links[static_cast<std::size_t>(link)].from == here);
                  here = topology.links[static_cast<std::size_t>(link)].to;
                }
                CHECK(here == topology.workers[b]);
              });
    }
  }
}

TEST_CASE("a hash spreads flows over the cores of a fat tree like dice") {
  EthernetNodes nodes = two_nodes_of_four();
  nodes.nodes = 128;
  nodes.gpus_per_node = nodes.nics = 1;
  const Topology topology = make_topology(FabricNodes{nodes, FatTreeShape{}});  // 4 x 4 cores
  Routes routes(topology);
  std::map<int, int> by_core;
  int flows = 0;
  for (std::size_t a = 0; a < 16; ++a) {
    for (std::size_t b = 64; b < 128; ++b) {
      ++flows;
      for (int link : routes.between(topology.workers[a], topology.workers[b])) {
        const int to = topology.links[static_cast<std::size_t>(link)].to;
        if (topology.vertices[static_cast<std::size_t>(to)].name.starts_with("core")) ++by_core[to];
      }
    }
  }
  REQUIRE(by_core.size() == 16);
  double chi_squared = 0;
  for (const auto& [core, count] : by_core) chi_squared += std::pow(count - flows / 16.0, 2) / (flows / 16.0);
  CHECK(chi_squared < 37.7);  // 15 degrees of freedom, 0.1 %
}

// Each link with the ways between all pairs that cross it.
TEST_CASE("spread ways of a fat tree at 1:1 crowd no switch's link more than the hosts' own") {
  EthernetNodes nodes = two_nodes_of_four();
  nodes.nodes = 48;
  nodes.gpus_per_node = nodes.nics = 1;
  auto busiest = [&](RouteChoice choice, std::uint64_t seed, bool is_nic) {
    nodes.network.routes = choice;
    nodes.network.route_seed = seed;
    const Topology topology = make_topology(FabricNodes{nodes, FatTreeShape{4, 4}});  // three pods
    Routes routes(topology);
    std::map<int, int> ways;
    for (int a : topology.workers) {
      for (int b : topology.workers) {
        for (int link : routes.between(a, b)) ++ways[link];
      }
    }
    int most = 0;
    for (const auto& [link, count] : ways) {
      if ((class_of(topology, topology.links[static_cast<std::size_t>(link)]) == "nic") == is_nic)
        most = std::max(most, count);
    }
    return most;
  };
  const int own = busiest(RouteChoice::spread, 1, true), spread = busiest(RouteChoice::spread, 1, false);
  CHECK(own == 47);
  CHECK(spread <= own);  // 44 or more: 4 hosts of a leaf, 44 others each, 4 links
  for (std::uint64_t seed = 1; seed <= 5; ++seed) CHECK(spread < busiest(RouteChoice::hash, seed, false));
}

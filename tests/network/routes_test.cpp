#include "sim/network/routes.hpp"

#include <doctest/doctest.h>

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
    text += topology.links[static_cast<std::size_t>(link)].name;
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
  std::erase_if(topology.links, [](const Link& link) {
    return link.name == "node1.nic0>switch" || link.name == "node1.nic1>switch";
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
    validate(topology);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.diagnostics().size() == 3);
  }
}

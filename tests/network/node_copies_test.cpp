#include "sim/network/node_copies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/network/changes.hpp"
#include "sim/network/families.hpp"
#include "sim/network/routes.hpp"

using namespace foretrain;

namespace {

Topology cluster(int nodes, InsideLink inside) {
  EthernetNodes family;
  family.nodes = nodes;
  family.gpus_per_node = 8;
  family.nics = 4;
  family.inside.kind = inside;
  family.network = {Rate(1e10), Time::microseconds(2), Transport::rdma, {}};
  return make_topology(family);
}

// Names without the number of the node.
std::vector<std::string> names(const Topology& topology, std::span<const int> way, int node) {
  std::vector<std::string> out;
  const std::string own = "node" + std::to_string(node) + '.';
  for (const int link : way) {
    std::string name = name_of(topology, topology.links[static_cast<std::size_t>(link)]);
    for (std::size_t at = name.find(own); at != std::string::npos; at = name.find(own)) {
      name.replace(at, own.size(), "own.");
    }
    out.push_back(name);
  }
  return out;
}

}  // namespace

TEST_CASE("nodes of a family are copies of the first; one with a failed link is not, nor those of its like") {
  Topology topology = cluster(4, InsideLink::nvlink);
  const NodeCopies all{WayGraph(topology)};
  const int vertices = topology.workers[8] - topology.workers[0];
  for (int node = 0; node < 4; ++node) CHECK(all.shift(node).vertex == node * vertices);
  CHECK(all.shift(-1).vertex == 0);

  const std::vector<LinkChange> cut = {{"node1.gpu2>node1.nvswitch", {}, {}, {}, true, false}};
  change_links(topology, cut);
  const NodeCopies broken{WayGraph(topology)};
  CHECK(broken.shift(1).vertex == 0);
  CHECK(broken.shift(2).vertex == 0);  // the first of its like after the broken one
  CHECK(broken.shift(3).vertex == vertices);
}

TEST_CASE("ways within and out of a node are those of its copies, and around a failed link others") {
  for (const InsideLink inside : {InsideLink::nvlink, InsideLink::pcie, InsideLink::nvlink_pairs}) {
    Topology topology = cluster(4, inside);
    const std::vector<LinkChange> cut = {{"node1.gpu2>node1.bridge1", {}, {}, {}, true, false}};
    change_links(topology, cut);
    topology.network.routes = RouteChoice::first;
    Routes routes(topology), fresh(topology);
    auto way = [&](Routes& from, int node, int a, int b) {
      const auto at = [&](int gpu) { return topology.workers[static_cast<std::size_t>(8 * node + gpu)]; };
      return names(topology, from.way(at(a), at(b)), node);
    };
    for (int a = 0; a < 8; ++a) {
      for (int b = 0; b < 8; ++b) {
        if (a == b) continue;
        const auto first = way(routes, 0, a, b);
        CHECK(way(routes, 2, a, b) == first);
        CHECK(way(routes, 3, a, b) == first);
        CHECK(way(fresh, 3, a, b) == first);
      }
    }
    if (inside != InsideLink::nvlink) continue;
    // To the next node: by its own NIC, but for the GPU that has lost its bridge.
    const auto out_of = [&](int gpu) {
      return names(topology,
                   routes.way(topology.workers[static_cast<std::size_t>(gpu)], topology.workers[24]),
                   gpu / 8);
    };
    CHECK(out_of(16 + 2).front() == "own.gpu2>own.bridge1");
    CHECK(out_of(2) == out_of(16 + 2));
    CHECK(out_of(8 + 2).front() == "own.gpu2>own.nvswitch");
  }
}

#include "sim/network/changes.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "sim/base/error.hpp"
#include "sim/network/families.hpp"
#include "sim/network/flows.hpp"
#include "sim/network/routes.hpp"
#include "sim/network/stepwise.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Topology star(int hosts) {
  return make_topology(Star{hosts, Rate(1e9), Time(), {}});
}

double ring_seconds(const Topology& topology) {
  std::vector<int> ranks(topology.workers.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  Routes routes(topology);
  return replay_stepwise(topology, routes, CollectiveKind::all_gather, CollectiveAlgorithm::ring,
                         rank_group(topology, ranks), Bytes(8'000'000))
      .time.in_seconds();
}

}  // namespace

TEST_CASE("a pattern fits where its stars can be filled") {
  CHECK(fits("node3.nic0>*", "node3.nic0>switch"));
  CHECK(fits("*nic*", "node3.nic0>switch"));
  CHECK(fits("nic", "nic"));
  CHECK(!fits("nic", "nic0"));
  CHECK(!fits("*x*", "node3"));
  CHECK(fits("*", ""));
}

TEST_CASE("links by name, by vertex, by class; what is left of one that others use") {
  Topology topology = star(4);
  const double before = ring_seconds(topology);
  const std::vector<LinkChange> slow = {{"host1", Rate(5e8), {}, {}, false, false}};
  change_links(topology, slow);
  CHECK(topology.links[2].rate == Rate(5e8));
  CHECK(topology.links[3].rate == Rate(5e8));
  CHECK(topology.links[4].rate == Rate(1e9));
  CHECK(class_of(topology, topology.links[2]) == "changed host");
  CHECK(ring_seconds(topology) > 1.5 * before);

  EthernetNodes nodes;
  nodes.nodes = 2;
  nodes.network = {Rate(1e9), Time(), Transport::tcp, {}};
  Topology slot = make_topology(nodes);
  const std::vector<LinkChange> nic = {{"node1.nic0", Rate(5e8), {}, {}, false, false}};
  change_links(slot, nic);
  for (const Link& link : slot.links) {
    const bool is_changed = class_of(slot, link).starts_with("changed");
    CHECK(is_changed ==
          (link.kind == LinkKind::network && name_of(slot, link).find("node1") != std::string::npos));
  }

  Topology shared = star(4);
  const std::vector<LinkChange> background = {{"host", {}, {}, Rate(7.5e8), false, false}};
  change_links(shared, background);
  CHECK(ring_seconds(shared) == approx(4 * before));
  const std::vector<LinkChange> all = {{"host2>switch", {}, {}, Rate(1e9), false, false}};
  change_links(shared, all);
  CHECK_THROWS_WITH_AS(validate(shared), doctest::Contains("leaves nothing"), Error);
}

TEST_CASE("many changes at once do what they do one by one") {
  EthernetNodes nodes;
  nodes.nodes = 4;
  nodes.gpus_per_node = 4;
  nodes.nics = 2;
  nodes.network = {Rate(1e9), Time(), Transport::tcp, {}};
  std::vector<LinkChange> changes;
  for (const char* name : {"node0.nic0", "node0.gpu1", "switch>node1.nic1", "nic", "changed nic", "node2*",
                           "node3.nic1", "node3.nic0>switch", "node1.gpu0", "switch"}) {
    changes.push_back({name, Rate(1e8 * static_cast<double>(changes.size() + 1)), {}, {}, false, false});
  }
  Topology at_once = make_topology(nodes), one_by_one = at_once;
  change_links(at_once, changes);
  for (const LinkChange& change : changes) change_links(one_by_one, {&change, 1});
  for (std::size_t l = 0; l < at_once.links.size(); ++l) {
    CHECK(at_once.links[l].rate == one_by_one.links[l].rate);
    CHECK(class_of(at_once, at_once.links[l]) == class_of(one_by_one, one_by_one.links[l]));
  }
}

TEST_CASE("a failed link is gone, and where it was the only way the error names both ends") {
  Topology topology = star(3);
  const std::vector<LinkChange> cut = {{"host2>switch", {}, {}, {}, true, false}};
  change_links(topology, cut);
  CHECK(topology.links.size() == 5);
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    const Link& link = topology.links[l];
    if (link.reverse >= 0)
      CHECK(topology.links[static_cast<std::size_t>(link.reverse)].reverse == static_cast<int>(l));
  }
  CHECK_THROWS_WITH_AS(ring_seconds(topology), doctest::Contains("no way from 'host2' to 'host0'"), Error);
  const std::vector<LinkChange> unknown = {{"host9", {}, {}, {}, true, false}};
  CHECK_THROWS_WITH_AS(change_links(topology, unknown), doctest::Contains("called 'host9'"), Error);
}

// Each host of a ring sends and receives at once: on half-duplex links both share the rate.
TEST_CASE("half duplex halves a ring") {
  Topology topology = star(4);
  const double full = ring_seconds(topology);
  const std::vector<LinkChange> half = {{"*", {}, {}, {}, false, true}};
  change_links(topology, half);
  CHECK(ring_seconds(topology) == approx(2 * full));
}

TEST_CASE("slow workers multiply, and must be there") {
  Topology topology = star(4);
  slow_workers(topology, 1, 2, 1.5);
  slow_workers(topology, 2, 2, 2);
  CHECK(topology.compute_factors == std::vector<double>{1, 1.5, 3, 1});
  CHECK_THROWS_WITH_AS(slow_workers(topology, 3, 4, 2), doctest::Contains("ranks 3 to 4"), Error);
}

TEST_CASE("a pattern means machines, their links or classes, as it is written") {
  EthernetNodes nodes;
  nodes.nodes = 3;
  nodes.gpus_per_node = 2;
  nodes.network = {Rate(1e9), Time(), Transport::tcp, {}};
  auto fitting = [&](const char* name) {
    Topology topology = make_topology(nodes);
    const std::vector<LinkChange> change = {{name, {}, Time::microseconds(1), {}, false, false}};
    std::vector<std::string> changed;
    const std::vector<std::string> told = change_links(topology, change);
    for (const Link& link : topology.links) {
      if (link.latency == Time::microseconds(1)) changed.push_back(name_of(topology, link));
    }
    return std::pair(changed, told.front());
  };
  // Of NICs their links of the network, not the slots that end in them.
  const auto [nics, told] = fitting("node*.nic0");
  CHECK(nics == std::vector<std::string>{"node0.nic0>switch", "switch>node0.nic0", "node1.nic0>switch",
                                         "switch>node1.nic0", "node2.nic0>switch", "switch>node2.nic0"});
  CHECK(told ==
        "6 directions of links: node0.nic0>switch, switch>node0.nic0, node1.nic0>switch, switch>node1.nic0, "
        "...");
  CHECK(fitting("*>node*.nic0").first.size() == 6);  // from the switch, and from the bridges
  CHECK(fitting("switch>*").first.size() == 3);
  CHECK(fitting("nic s*").first.size() == 6);  // no vertex, a class
  CHECK(fitting("node1.nic0").second.empty());
  CHECK_THROWS_WITH_AS(fitting("node*.nic7"), doctest::Contains("no vertex or class"), Error);
  CHECK_THROWS_WITH_AS(fitting("node7*>*"), doctest::Contains("no link of topology"), Error);
}

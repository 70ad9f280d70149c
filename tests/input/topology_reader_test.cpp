#include "sim/input/topology_reader.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/input/catalog.hpp"
#include "sim/network/routes.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Cluster read(const std::string& text, std::string* findings = nullptr) {
  Diagnostics diagnostics;
  const auto root = parse_document(text, "c.yaml", diagnostics);
  REQUIRE(root);
  const Catalog catalog({FORETRAIN_SOURCE_DIR});
  Cluster cluster = read_cluster(*root, catalog, diagnostics);
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + '\n';
  if (findings != nullptr) *findings = all;
  if (findings == nullptr && !all.empty()) FAIL(all);
  return cluster;
}

std::string errors_of(const std::string& text) {
  std::string findings;
  CHECK(read(text, &findings).topology.workers.empty());
  return findings;
}

std::string graph_errors(const std::string& text) {
  Diagnostics diagnostics;
  const auto root = parse_document(text, "t.yaml", diagnostics);
  REQUIRE(root);
  Value none;
  none.kind = ValueKind::map;
  read_topology_file(*root, "t", none, diagnostics);
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + '\n';
  return all;
}

}  // namespace

TEST_CASE("a family with its keys becomes a cluster") {
  const Cluster cluster = read(
      "topology: ethernet-nodes\nnodes: 2\ngpus_per_node: 4\n"
      "network: { bandwidth: 25 Gbit/s, latency: 30 us, transport: tcp, reported: 10 Gbit/s }\n");
  CHECK(cluster.family == "ethernet-nodes");
  const Topology& topology = cluster.topology;
  CHECK(topology.workers.size() == 8);
  CHECK(topology.nodes == 2);
  CHECK(topology.nics_per_node == 1);
  CHECK(topology.network.bandwidth.bytes_per_second() == approx(3.125e9));
  CHECK(topology.network.reported.bytes_per_second() == approx(1.25e9));
  CHECK(topology.network.latency == Time::microseconds(30));
  CHECK(topology.network.name() == "ethernet 25 Gbit/s tcp");
}

TEST_CASE("reported is the bandwidth where it is not given; a star carries the full line rate") {
  CHECK(read("topology: ethernet-nodes\nnodes: 1\ngpus_per_node: 1\nnetwork: { bandwidth: 1 Gbit/s }\n")
            .topology.network.reported == Rate::bits_per_second(1e9));
  const Topology star =
      read("topology: star\nhosts: 3\nbandwidth: 1 Gbit/s\nslow: { host: 1, bandwidth: 100 Mbit/s }\n")
          .topology;
  CHECK(star.links[0].efficiency == 1);
  CHECK(star.links[2].rate == Rate::bits_per_second(1e8));
  CHECK(read("topology: one-node\nworkers: 4\n").topology.workers.size() == 4);
}

TEST_CASE("a shipped machine takes keys on top of its own") {
  const Topology topology = read("topology: hgx-h200\nnodes: 4\nnetwork: { latency: 2 us }\n").topology;
  CHECK(topology.name == "hgx-h200");
  CHECK(topology.workers.size() == 32);
  CHECK(topology.nics_per_node == 8);
  CHECK(topology.network.latency == Time::microseconds(2));
  CHECK(topology.network.transport == Transport::rdma);
}

TEST_CASE("an explicit graph with parameters: leaf and spine") {
  const Topology topology = read("topology: leaf-spine-graph\nleaves: 3\ngpus_per_host: 2\n").topology;
  CHECK(topology.workers.size() == 24);
  CHECK(topology.nodes == 12);
  Routes routes(topology);
  // GPU, switch, NIC, leaf, spine, leaf, NIC, switch, GPU
  CHECK(routes.between(topology.workers[0], topology.workers[23]).size() == 8);
  CHECK(routes.latency(topology.workers[0], topology.workers[23]) == Time::microseconds(4));
}

TEST_CASE("every shipped topology can be read") {
  const Catalog catalog({FORETRAIN_SOURCE_DIR});
  const auto names = catalog.names(DataKind::topology);
  CHECK(names.size() >= 7);
  for (const std::string& name : names) {
    Diagnostics diagnostics;
    const auto root = read_document(*catalog.find(DataKind::topology, name), diagnostics);
    REQUIRE(root);
    Value none;
    none.kind = ValueKind::map;
    CHECK(!read_topology_file(*root, name, none, diagnostics).topology.workers.empty());
    for (const Diagnostic& finding : diagnostics.errors()) FAIL_CHECK(finding.text());
  }
}

TEST_CASE("what is wrong in a cluster is found with its place") {
  CHECK(errors_of("topology: ethernet-node\n").find("did you mean 'ethernet-nodes'?") != std::string::npos);
  CHECK(errors_of("nodes: 2\n").find("c.yaml:1:1: cluster has no 'topology'") != std::string::npos);
  CHECK(errors_of("topology: star\nhosts: 2\nbandwidth: 10\n")
            .find("c.yaml:3:12: bandwidth: '10' has no unit") != std::string::npos);
  CHECK(errors_of("topology: star\nhosts: 2\nbandwidth: 1 Gbit/s\nslow: { host: 2, bandwidth: 1 Mbit/s }\n")
            .find("counts from 0") != std::string::npos);
  CHECK(errors_of("topology: nvlink-node\ngpus_per_node: 8\nnodes: 2\n").find("needs a network") !=
        std::string::npos);
  CHECK(errors_of("topology: leaf-spine-graph\nleafs: 2\n").find("did you mean 'leaves'?") !=
        std::string::npos);
  CHECK(
      errors_of(
          "topology: ethernet-nodes\nnodes: 200000\ngpus_per_node: 1000\nnetwork: { bandwidth: 1 Gbit/s }\n")
          .find("1,048,576") != std::string::npos);
}

TEST_CASE("links and GPUs that are not there are found at once, each with its place") {
  const std::string found = errors_of(
      "topology: ethernet-nodes\nnodes: 2\ngpus_per_node: 1\n"
      "network: { bandwidth: 10 Gbit/s, latency: 30 us }\n"
      "links:\n  - { name: nosuch, bandwidth: 1 Gbit/s }\n  - { name: 'node0.nic*', failed: true }\n"
      "  - { name: 'node0.nic*', latency: 1 ms }\n  - { name: neither, failed: true }\n"
      "slow_gpus:\n  - { from: 7, factor: 2 }\n  - { from: 0, to: 1, factor: 2 }\n  - { from: 1, to: 9, "
      "factor: 2 }\n");
  CHECK(found ==
        "c.yaml:6:5: no link or vertex of topology 'ethernet-nodes' is called 'nosuch'\n"
        "c.yaml:9:5: no link or vertex of topology 'ethernet-nodes' is called 'neither'\n"
        "c.yaml:11:5: slow_gpus: ranks 7 to 7 are not within the 2 workers of the cluster\n"
        "c.yaml:13:5: slow_gpus: ranks 1 to 9 are not within the 2 workers of the cluster\n");
}

TEST_CASE("what is wrong in a graph is found with its place") {
  const std::string head = "vertices:\n  - { name: \"a{i}\", kind: gpu, node: i, for: { i: 2 } }\n";
  CHECK(graph_errors(head + "links:\n  - { from: a0, to: b1, bandwidth: 1 GB/s }\n")
            .find("t.yaml:4:21: there is no vertex 'b1'") != std::string::npos);
  CHECK(graph_errors(head + "links:\n  - { from: a0, to: a1 }\n").find("has no 'bandwidth'") !=
        std::string::npos);
  CHECK(graph_errors(head + "links:\n  - { from: \"a{j}\", to: a1, bandwidth: 1 GB/s }\n").find("j") !=
        std::string::npos);
  CHECK(graph_errors("vertices:\n  - { name: a, kind: gpu, node: 0, for: { i: 3 } }\nlinks: []\n")
            .find("two vertices have the name 'a'") != std::string::npos);
  CHECK(graph_errors(
            "vertices:\n  - { name: \"a{i}{j}\", kind: nic, for: { i: 1000000000, j: 9 } }\nlinks: []\n")
            .find("more than 2 million parts") != std::string::npos);
  CHECK(graph_errors("family: rings\n").find("family: 'rings' is unknown") != std::string::npos);
}

TEST_CASE("links of a graph may be half duplex: both directions share the rate") {
  Diagnostics diagnostics;
  const auto root = parse_document(
      "network: { bandwidth: 10 Gbit/s }\n"
      "vertices:\n"
      "  - { name: \"hub\", kind: network_switch }\n"
      "  - { name: \"host{h}\", kind: gpu, node: h, for: { h: 3 } }\n"
      "links:\n"
      "  - { from: \"host{h}\", to: hub, half_duplex: true, for: { h: 2 } }\n"
      "  - { from: host2, to: hub }\n",
      "t.yaml", diagnostics);
  REQUIRE(root);
  Value none;
  none.kind = ValueKind::map;
  const Topology topology = read_topology_file(*root, "t", none, diagnostics).topology;
  diagnostics.throw_errors();
  REQUIRE(topology.links.size() == 6);
  for (std::size_t l = 0; l < 6; ++l) CHECK(topology.links[l].half_duplex == (l < 4));
}

TEST_CASE("ranges that overlap, and sites without a node") {
  const std::string cluster =
      "topology: ethernet-nodes\nnodes: 2\ngpus_per_node: 4\nnetwork: { bandwidth: 25 Gbit/s }\n";
  Diagnostics diagnostics;
  const auto root = parse_document(
      cluster +
          "slow_gpus: [{ from: 0, to: 3, factor: 1.2 }, { from: 3, factor: 1.5 }, { from: 4, factor: 2 }]\n",
      "c.yaml", diagnostics);
  const Topology slowed = read_cluster(*root, Catalog({FORETRAIN_SOURCE_DIR}), diagnostics).topology;
  CHECK(slowed.compute_factors[3] == approx(1.8));
  REQUIRE(diagnostics.warnings().size() == 1);
  CHECK(diagnostics.warnings().front().what ==
        "slow_gpus: rank 3 is in more than one range: its factors multiply");
  const std::string wan =
      "topology: wan\ngpus_per_node: 1\nwan_bandwidth: 1 Gbit/s\nnetwork: { bandwidth: 25 Gbit/s }\n";
  CHECK(errors_of(wan + "nodes: 2\nsites: 3\n").find("wan: 3 sites have only 2 nodes") != std::string::npos);
  const Topology sites = read(wan + "nodes: 4\nsites: 3\n").topology;
  CHECK(find_vertex(sites, "site2") >= 0);
}

TEST_CASE("what cannot be of a cluster's numbers is hinted at") {
  const auto warnings = [](const std::string& text) {
    Diagnostics diagnostics;
    const auto root = parse_document(text, "c.yaml", diagnostics);
    REQUIRE(root);
    CHECK_FALSE(read_cluster(*root, Catalog({FORETRAIN_SOURCE_DIR}), diagnostics).topology.workers.empty());
    std::string all;
    for (const Diagnostic& hint : diagnostics.warnings()) all += hint.text() + '\n';
    return all;
  };
  const std::string nodes = "topology: ethernet-nodes\nnodes: 2\nnetwork: { bandwidth: 10 Gbit/s }\n";
  CHECK(warnings(nodes + "gpus_per_node: 4\nnics: 4\n") == "");
  CHECK(warnings(nodes + "gpus_per_node: 4\nnics: 6\n") ==
        "c.yaml:5:7: nics: 6 of them for 4 GPUs of a node: a GPU has one here, and 2 stay idle\n");
  CHECK(warnings(nodes + "gpus_per_node: 144\n").find("'144' is implausible (usual: up to 72)") !=
        std::string::npos);
}

TEST_CASE("each link that is left nothing is a finding of its own") {
  const std::string all = errors_of(
      "topology: ethernet-nodes\nnodes: 2\ngpus_per_node: 1\nnetwork: { bandwidth: 10 Gbit/s }\n"
      "links: [{ name: nic, background: 20 Gbit/s }]\n");
  CHECK(std::count(all.begin(), all.end(), '\n') == 4);
}

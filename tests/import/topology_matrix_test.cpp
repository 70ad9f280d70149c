#include "sim/import/topology_matrix.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/topology_reader.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/imports.hpp"

using namespace foretrain;
using foretrain::test::approx;
using test::Finished;
using test::holds;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

// As a terminal shows it: underlined head, tabs, a legend. Four GPUs around NVSwitches.
const std::string switched =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tNV18\t0-63\t0\t\tN/A\nGPU1\tNV18\t X \tNV18\tNV18\t0-63\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tNV18\t0-63\t0\t\tN/A\nGPU3\tNV18\tNV18\tNV18\t X \t0-63\t0\t\tN/A\n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n";

// Two sockets, a PCIe switch on each with two GPUs and a NIC; NVLink bridges join GPU0 and GPU1.
const std::string tree =
    "        GPU0    GPU1    GPU2    GPU3    mlx5_0  mlx5_1  CPU Affinity    NUMA Affinity\n"
    "GPU0     X      NV4     SYS     SYS     PXB     SYS     0-15,32-47      0\n"
    "GPU1    NV4      X      SYS     SYS     PIX     SYS     0-15,32-47      0\n"
    "GPU2    SYS     SYS      X      PIX     SYS     PIX     16-31,48-63     1\n"
    "GPU3    SYS     SYS     PIX      X      SYS     PIX     16-31,48-63     1\n"
    "mlx5_0  PXB     PIX     SYS     SYS      X      SYS\n"
    "mlx5_1  SYS     SYS     PIX     PIX     SYS      X \n\n"
    "Legend:\n  PIX  = Connection traversing at most a single PCIe bridge\nNIC Legend:\n  NIC0: mlx5_0\n";

Topology imported(const std::string& text, const std::string& network = "", const std::string& keys = "{}") {
  ImportOptions options;
  options.file = "topo.txt";
  options.target = "mine.yaml";
  options.network = network;
  const Imported made = import_topology_matrix(text, options);
  CAPTURE(made.content);
  Diagnostics findings;
  const auto file = parse_document(made.content, "mine.yaml", findings);
  const auto cluster = parse_document(keys, "cluster", findings);
  REQUIRE(file);
  REQUIRE(cluster);
  Cluster read = read_topology_file(*file, "mine", *cluster, findings);
  findings.throw_errors();
  return read.topology;
}

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { imported(text); });
}

bool are_joined(const Topology& topology, const char* a, const char* b) {
  return topology.find_link(find_vertex(topology, a), find_vertex(topology, b)) >= 0;
}

}  // namespace

TEST_CASE("more NVLinks than a GPU has are those of a switch") {
  const Topology topology = imported(switched);
  CHECK(topology.workers.size() == 4);
  REQUIRE(are_joined(topology, "node0.gpu3", "node0.nvswitch"));
  const int gpu = find_vertex(topology, "node0.gpu0"), hub = find_vertex(topology, "node0.nvswitch");
  CHECK(topology.links[static_cast<std::size_t>(topology.find_link(gpu, hub))].rate.bytes_per_second() ==
        approx(450e9));
  CHECK(!are_joined(topology, "node0.gpu0", "node0.gpu1"));
}

TEST_CASE("switches, bridges and sockets come from PIX, PXB and SYS, whatever the NICs are called") {
  const Topology topology = imported(tree);
  REQUIRE(topology.workers.size() == 4);
  CHECK(are_joined(topology, "node0.gpu0", "node0.gpu1"));  // NV4
  CHECK(are_joined(topology, "node0.gpu1", "node0.pcie0"));
  CHECK(are_joined(topology, "node0.nic0", "node0.pcie0"));
  CHECK(are_joined(topology, "node0.gpu2", "node0.pcie1"));
  CHECK(are_joined(topology, "node0.gpu3", "node0.pcie1"));
  CHECK(are_joined(topology, "node0.nic1", "node0.pcie1"));
  CHECK(are_joined(topology, "node0.gpu0", "node0.pcie2"));  // PXB: above the switch of GPU1
  CHECK(are_joined(topology, "node0.pcie0", "node0.pcie2"));
  CHECK(are_joined(topology, "node0.bridge1", "node0.bridge0"));
}

TEST_CASE("several nodes of the machine, once the network's speed is said") {
  const Topology topology = imported(tree, "100 Gbit/s rdma", "{ nodes: 3 }");
  CHECK(topology.nodes == 3);
  CHECK(topology.workers.size() == 12);
  CHECK(topology.nics_per_node == 2);
  CHECK(topology.network.transport == Transport::rdma);
  CHECK(are_joined(topology, "node2.nic1", "switch"));
  CHECK(imported(switched, "25 Gbit/s tcp", "{ nodes: 2 }").workers.size() == 8);
}

TEST_CASE("lines that a terminal has wrapped, between words and within one") {
  std::string wrapped = tree;
  wrapped.replace(wrapped.find("PXB     SYS     0-15"), 7, "PXB\n");
  wrapped.replace(wrapped.find("SYS     PIX     16-31"), 3, "SY\nS");
  const Topology topology = imported(wrapped);
  CHECK(topology.workers.size() == 4);
  CHECK(are_joined(topology, "node0.nic1", "node0.pcie1"));
  std::string crlf;
  for (const char c : tree) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(imported(crlf).links.size() == imported(tree).links.size());
  CHECK(imported("user@host:~$ nvidia-smi topo -m\n" + switched).workers.size() == 4);
}

TEST_CASE("a single GPU, and matrices that are none") {
  CHECK(imported("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\tN/A\n").workers.size() == 1);
  CHECK(holds(refusal(""), "has no line of GPU0"));
  CHECK(holds(refusal("GPU0 GPU1\nGPU0 X NV2\n"), "row of GPU1 is missing"));
  CHECK(holds(refusal("GPU0 GPU1\nGPU0 X FOO\nGPU1 FOO X\n"), "topo.txt:2: row GPU0, column GPU1: 'FOO'"));
  CHECK(holds(refusal("GPU0 GPU1\nGPU0 NV2 X\nGPU1 NV2 X\n"), "X in another column"));
}

TEST_CASE("a job is simulated on the imported machine") {
  const TemporaryFolder folder;
  const std::string text = folder.write("topo.txt", tree);
  const Finished made =
      run_foretrain({"import", "topo-m", text, "-o", folder.path("mine.yaml"), "--network", "25 Gbit/s"});
  CHECK(made.status == 0);
  CHECK(holds(made.err, "4 GPUs, 2 NICs"));
  CHECK(run_foretrain({"check", folder.path("mine.yaml")}).status == 0);
  const std::string scenario =
      folder.write("s.yaml",
                   "model: resnet50\nprofile: { steps: [[64, 130 ms]] }\nbatch: { per_worker: 64 }\n"
                   "cluster: { topology: mine.yaml, nodes: 2 }\n");
  const Finished result = run_foretrain({"simulate", scenario, "--csv", "-"});
  CAPTURE(result.err);
  CHECK(result.status == 0);
}

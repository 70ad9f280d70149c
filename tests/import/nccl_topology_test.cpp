#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/import/importer.hpp"
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

const Importer* importer() {
  return test::importer_named("nccl-xml");
}

// Two sockets; on each a PCIe switch with two GPUs and a NIC; NVSwitches.
const std::string dump = R"(<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="49">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:c1:00.0" count="12" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:c1:00.0" count="6" tclass="0x068000"/><nvlink target="0000:c2:00.0" count="6" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" latency="0.0" guid="0x1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu host_hash="0x1" numaid="1" affinity="ff00" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="49">
    <pci busid="0000:81:00.0" class="0x030200" link_speed="" link_width="16">
      <gpu dev="2" sm="80" rank="2"><nvlink target="fffffff:ffff:ff" count="12"/></gpu>
    </pci>
    <nic><net name="eth0" dev="1" speed="-1" port="0" latency="0.0" maxconn="65536" gdr="0"/></nic>
  </cpu>
</system>)";

std::string text_of(const std::string& xml, std::string* notes = nullptr) {
  ImportOptions options;
  options.file = "topo.xml";
  options.target = "mine.yaml";
  const Imported made = importer()->import(xml, options);
  if (notes != nullptr)
    for (const std::string& note : made.notes) *notes += note + '\n';
  return made.content;
}

Topology imported(const std::string& xml, const std::string& keys = "{}", std::string* notes = nullptr) {
  const std::string text = text_of(xml, notes);
  CAPTURE(text);
  Diagnostics findings;
  const auto file = parse_document(text, "mine.yaml", findings),
             cluster = parse_document(keys, "cluster", findings);
  REQUIRE(file);
  Cluster read = read_topology_file(*file, "mine", *cluster, findings);
  findings.throw_errors();
  return read.topology;
}

double rate(const Topology& topology, const char* from, const char* to) {
  const int link = topology.find_link(find_vertex(topology, from), find_vertex(topology, to));
  return link < 0 ? 0 : topology.links[static_cast<std::size_t>(link)].rate.bytes_per_second();
}

std::string refusal(const std::string& xml) {
  return test::refusal_of([&] { text_of(xml); });
}

}  // namespace

TEST_CASE("NCCL's dump becomes a topology") {
  if (importer() == nullptr) return;
  std::string notes;
  const Topology topology = imported(dump, "{ nodes: 2 }", &notes);
  CHECK(topology.workers.size() == 6);
  CHECK(topology.nics_per_node == 2);
  CHECK(rate(topology, "node0.gpu0", "node0.nvswitch") == approx(300e9));
  CHECK(rate(topology, "node0.gpu1", "node0.nvswitch") == approx(300e9));  // to two switches, 6 each
  CHECK(rate(topology, "node0.gpu2", "node0.nvswitch") == approx(300e9));  // a target that is not listed
  CHECK(rate(topology, "node0.gpu0", "node0.pcie0") == approx(16e9 * 128 / 130 / 8 * 16).epsilon(1e-4));
  CHECK(rate(topology, "node0.gpu2", "node0.cpu1") == approx(8e9 * 128 / 130 / 8 * 16).epsilon(1e-4));
  CHECK(rate(topology, "node0.cpu1", "node0.cpu0") == approx(16e9));
  CHECK(rate(topology, "node1.nic0", "switch") == approx(25e9));
  CHECK(rate(topology, "node1.nic1", "switch") == approx(1.25e9));
  CHECK(topology.network.transport == Transport::rdma);
  CHECK(holds(notes, "1 PCI devices have no link speed"));
  CHECK(holds(notes, "1 adapters have no speed"));
}

TEST_CASE("units of speed, sleeping links, files of PCI alone, RCCL's version 2") {
  if (importer() == nullptr) return;
  auto with_speed = [](const char* speed) {
    return std::string(
               "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:02:00.0\" class=\"0x030200\" "
               "link_speed=\"2.5 GT/s PCIe\" "
               "link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\"/></pci><nic><net name=\"mlx5_0\" "
               "dev=\"0\" speed=\"") +
           speed + "\"/></nic></cpu></system>";
  };
  std::string notes;
  for (const char* speed : {"100000", "100", "100000000000"}) {
    CAPTURE(speed);
    CHECK(imported(with_speed(speed), "{ nodes: 2 }", &notes).network.bandwidth.bytes_per_second() ==
          approx(12.5e9));
  }
  CHECK(holds(notes, "taken for Gbit/s"));
  CHECK(holds(notes, "taken for bit/s"));
  CHECK(holds(notes, "as they are while asleep"));

  const Topology bare = imported(
      "<system version=\"1\"><pci busid=\"0\" class=\"0x030200\"><gpu/></pci><pci "
      "busid=\"1\"><gpu/></pci></system>",
      "{}", &notes);
  CHECK(bare.workers.size() == 2);
  CHECK(rate(bare, "node0.gpu1", "node0.cpu0") > 0);
  CHECK(holds(notes, "socket stands for PCI devices"));

  const Topology amd = imported(R"(<system version="2"><cpu numaid="0" vendor="AuthenticAMD">
      <pci busid="0000:C1:00.0" class="0x038000"><gpu dev="0" gcn="gfx90a" rank="0"><xgmi target="0000:c6:00.0" count="4" tclass="0x038000"/></gpu></pci>
      <pci busid="0000:c6:00.0" class="0x038000"><gpu dev="1" gcn="gfx90a" rank="1"><xgmi target="0000:c1:00.0" count="4" tclass="0x038000"/></gpu></pci>
      </cpu></system>)");
  CHECK(rate(amd, "node0.gpu0", "node0.gpu1") == approx(200e9));
}

TEST_CASE("attributes that a dump lacks are taken as NCCL takes them") {
  if (importer() == nullptr) return;
  // No numaid, no busid, no link, no dev, no count and no target; a net without speed, one filtered out, one
  // that is no device of its own.
  const std::string bare = R"(<system>
    <cpu><pci><gpu><nvlink/></gpu></pci>
      <pci busid="" link_speed="Unknown" link_width="">
        <gpu dev="x"><nvlink target="" count="-3"/></gpu></pci>
      <pci><nic><net name="mlx5_0"/><net name="mlx5_1" keep="0" speed="400000"/><net/></nic></pci></cpu>
    <cpu numaid="-1"><nic/></cpu></system>)";
  std::string notes;
  const Topology topology = imported(bare, "{ nodes: 2 }", &notes);
  CHECK(topology.workers.size() == 4);
  CHECK(topology.nics_per_node == 2);
  CHECK(topology.network.bandwidth.bytes_per_second() == approx(1.25e9));
  CHECK(holds(notes, "2 adapters have no speed"));
  CHECK(holds(notes, "3 PCI devices have no link speed or width"));
}

TEST_CASE("what is no dump of NCCL") {
  if (importer() == nullptr) return;
  CHECK(holds(refusal("<system"), "is no XML at byte"));
  CHECK(holds(refusal("<graphs version=\"1\"/>"), "no element 'system'"));
  CHECK(holds(refusal("<system version=\"1\"/>"), "has no GPU"));
  CHECK(refusal("") != "");
  std::string deep = "<system>";
  for (int i = 0; i < 100; ++i) deep += "<pci>";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  CHECK(holds(refusal(deep + "</system>"), "deeper than 64"));
}

TEST_CASE("a job is simulated on the dumped machine") {
  const TemporaryFolder folder;
  const std::string xml = folder.write("topo.xml", dump);
  const Finished made = run_foretrain({"import", "nccl-xml", xml, "-o", folder.path("mine.yaml")});
  if (importer() == nullptr) {
    CHECK(made.status == 4);
    return;
  }
  CHECK(made.status == 0);
  CHECK(run_foretrain({"check", folder.path("mine.yaml")}).status == 0);
  const Finished timed = run_foretrain({"collective", "all_reduce", "--topology", folder.path("mine.yaml"),
                                        "--set", "nodes=2", "--bytes", "64MiB", "--csv", "-"});
  CAPTURE(timed.err);
  CHECK(timed.status == 0);
  const std::string scenario =
      folder.write("s.yaml",
                   "model: resnet50\nprofile: { steps: [[64, 130 ms]] }\nbatch: { per_worker: 64 }\n"
                   "cluster: { topology: mine.yaml, nodes: 2 }\n");
  const Finished result = run_foretrain({"simulate", scenario, "--csv", "-"});
  CAPTURE(result.err);
  CHECK(result.status == 0);
}

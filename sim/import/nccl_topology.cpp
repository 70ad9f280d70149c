#include "sim/import/nccl_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <pugixml.hpp>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/import/lines.hpp"
#include "sim/import/node_graph.hpp"

namespace foretrain {
namespace {

constexpr int deepest = 64;
constexpr std::size_t most_parts = 100'000;

double number_of(const pugi::xml_node& node, const char* name, double otherwise) {
  double value = 0;
  return read_number(trimmed(node.attribute(name).value()), value) ? value : otherwise;
}

bool is_named(const pugi::xml_node& node, const char* name) {
  return std::strcmp(node.name(), name) == 0;
}

class Builder {
 public:
  Builder(NodeGraph& graph, std::vector<std::string>& notes) : graph_(graph), notes_(notes) {}

  void build(const pugi::xml_node& system) {
    for (const pugi::xml_node& child : system.children()) {
      if (is_named(child, "cpu")) {
        add_socket(child);
      } else {
        visit(child, socket(), 0);
      }
    }
    join_sockets();
    add_gpu_links();
    add_notes();
  }

 private:
  // PCI devices without a cpu above them: one stands for all.
  std::string socket() {
    if (bare_socket_.empty()) {
      bare_socket_ = fmt::format("cpu{}", sockets_.size());
      graph_.add(bare_socket_, VertexKind::host_bridge);
      sockets_.push_back({bare_socket_, unknown_processor});
      ++bare_sockets_;
    }
    return bare_socket_;
  }

  // GB/s between sockets as NCCL counts them (src/graph/topo.h).
  static constexpr double unknown_processor = 10;
  static double between_sockets(const pugi::xml_node& cpu) {
    const std::string_view arch = cpu.attribute("arch").value(), vendor = cpu.attribute("vendor").value();
    if (arch == "ppc64") return 32;
    if (arch == "arm64") return 6;
    if (vendor == "AuthenticAMD") return 16;
    if (vendor != "GenuineIntel") return unknown_processor;
    constexpr double skylake = 0x55, sapphire_rapids = 0x8F;
    const double model = number_of(cpu, "modelid", 0);
    return model >= sapphire_rapids ? 22 : model >= skylake ? 10 : 6;
  }

  void add_socket(const pugi::xml_node& cpu) {
    std::string name =
        fmt::format("cpu{:.0f}", number_of(cpu, "numaid", static_cast<double>(sockets_.size())));
    while (graph_.has(name)) name += 'x';
    graph_.add(name, VertexKind::host_bridge);
    sockets_.push_back({name, between_sockets(cpu)});
    for (const pugi::xml_node& child : cpu.children()) visit(child, name, 0);
  }

  void visit(const pugi::xml_node& node, const std::string& above, int depth) {
    if (depth > deepest || graph_.parts.size() > most_parts)
      throw Error(ErrorKind::input, "the topology is deeper than 64 levels or larger than 100,000 parts");
    if (is_named(node, "pci")) {
      add_pci(node, above, depth);
    } else if (is_named(node, "nic")) {
      add_nics(node, above, pcie_rate(8, 16));
    } else if (is_named(node, "gpu")) {  // without its pci
      add_gpu(node, above, pcie_rate(8, 16), "");
    } else if (is_named(node, "cpu")) {
      for (const pugi::xml_node& child : node.children()) visit(child, above, depth + 1);
    }
  }

  Rate rate_of(const pugi::xml_node& pci) {
    double speed = 0, lanes = number_of(pci, "link_width", 0);
    const std::vector<std::string_view> words = words_of(pci.attribute("link_speed").value());
    if (words.empty() || !read_number(words.front(), speed) || speed <= 0 || lanes <= 0) {
      ++without_speed_;
      return pcie_rate(8, 16);
    }
    constexpr double sleeping = 2.5;
    asleep_ += speed <= sleeping;
    return pcie_rate(speed, static_cast<int>(std::min(lanes, 64.0)));
  }

  void add_pci(const pugi::xml_node& pci, const std::string& above, int depth) {
    const Rate rate = rate_of(pci);
    const bool holds_gpu = pci.child("gpu") != nullptr, holds_nic = pci.child("nic") != nullptr;
    if (holds_gpu) add_gpu(pci.child("gpu"), above, rate, pci.attribute("busid").value());
    if (holds_nic) add_nics(pci.child("nic"), above, rate);
    if (pci.child("pci") == nullptr) return;
    const std::string name = fmt::format("pcie{}", switches_++);
    graph_.add(name, VertexKind::pcie_switch);
    graph_.joins.push_back({name, above, LinkKind::pcie, "pcie", rate, {}});
    for (const pugi::xml_node& child : pci.children("pci")) visit(child, name, depth + 1);
  }

  void add_gpu(const pugi::xml_node& gpu, const std::string& above, Rate rate, const std::string& bus) {
    std::string name = fmt::format("gpu{:.0f}", number_of(gpu, "dev", graph_.count(VertexKind::gpu)));
    while (graph_.has(name)) name += 'x';
    graph_.add(name, VertexKind::gpu);
    graph_.joins.push_back({name, above, LinkKind::pcie, "pcie", rate, {}});
    if (!bus.empty()) gpu_of_bus_[lower_case(bus)] = name;
    gpus_.push_back({name, gpu});
  }

  void add_nics(const pugi::xml_node& nic, const std::string& above, Rate slot) {
    for (const pugi::xml_node& net : nic.children("net")) {
      // Filtered out by NCCL_IB_HCA.
      if (net.attribute("keep") && number_of(net, "keep", 1) == 0) continue;
      const std::string name = fmt::format("nic{}", graph_.count(VertexKind::nic));
      graph_.add(name, VertexKind::nic);
      const Rate speed = speed_of(net);
      graph_.joins.push_back({name, above, LinkKind::pcie, "\"nic slot\"", std::max(slot, speed), 1.0});
      graph_.nic_rates.emplace_back(speed);
      const std::string_view adapter = net.attribute("name").value();
      is_rdma_ = is_rdma_ || number_of(net, "gdr", 0) > 0 || adapter.starts_with("mlx") ||
                 adapter.find("rdma") != std::string_view::npos || adapter.starts_with("bnxt_re") ||
                 adapter.starts_with("hfi");
    }
  }

  // In Mbit/s; some files have Gbit/s, some bit/s, some nothing or -1.
  Rate speed_of(const pugi::xml_node& net) {
    double speed = number_of(net, "speed", 0);
    constexpr double nccl_default = 10'000, least_megabits = 1'000, most_megabits = 3'200'000;
    if (!(speed > 0)) {
      ++without_network_speed_;
      speed = nccl_default;
    } else if (speed < least_megabits) {
      ++in_gigabits_;
      speed *= 1000;
    } else if (speed > most_megabits) {
      ++in_bits_;
      speed *= 1e-6;
    }
    return Rate::bits_per_second(speed * 1e6);
  }

  void join_sockets() {
    for (std::size_t i = 1; i < sockets_.size(); ++i) {
      const double gigabytes = std::min(sockets_[0].second, sockets_[i].second);
      graph_.joins.push_back({sockets_[i].first, sockets_[0].first, LinkKind::pcie, "\"between sockets\"",
                              Rate(gigabytes * 1e9), 1.0});
    }
  }

  void add_gpu_links() {
    std::map<std::string, double> to_switch;
    std::map<std::pair<std::string, std::string>, double> between;
    double of_a_link = 25e9;  // NVLink 2 to 4
    for (const auto& [name, gpu] : gpus_) {
      constexpr double blackwell = 100;
      if (number_of(gpu, "sm", 0) >= blackwell) of_a_link = 50e9;
      for (const char* kind : {"nvlink", "xgmi"}) {
        for (const pugi::xml_node& link : gpu.children(kind)) {
          const double count = std::min(number_of(link, "count", 1), 64.0);
          if (!(count > 0)) continue;
          const auto found = gpu_of_bus_.find(lower_case(link.attribute("target").value()));
          is_amd_ = is_amd_ || is_named(link, "xgmi");
          const std::string_view target_class = link.attribute("tclass").value();
          if (found == gpu_of_bus_.end()) {
            // NVSwitches are not listed, and behind a hypervisor have no address; 0x068001 is a processor.
            if (!target_class.starts_with("0x068001")) to_switch[name] += count;
          } else if (found->second != name) {
            double& known = between[std::minmax(name, found->second)];
            known = std::max(known, count);
          }
        }
      }
    }
    if (is_amd_) of_a_link = 50e9;
    if (!to_switch.empty()) graph_.add("nvswitch", VertexKind::nvswitch);
    for (const auto& [name, count] : to_switch)
      graph_.joins.push_back({name, "nvswitch", LinkKind::nvlink, "nvlink", Rate(count * of_a_link), {}});
    for (const auto& [ends, count] : between)
      graph_.joins.push_back({ends.first,
                              ends.second,
                              LinkKind::nvlink,
                              is_amd_ ? "xgmi" : "nvlink",
                              Rate(count * of_a_link),
                              {}});
    if (!to_switch.empty() || !between.empty())
      notes_.push_back(fmt::format(
          "links between GPUs are taken for {:.0f} GB/s each and direction, which the file does not say",
          of_a_link * 1e-9));
  }

  void add_notes() {
    auto note = [&](int count, const char* what) {
      if (count > 0) notes_.push_back(fmt::format("{} {}", count, what));
    };
    note(bare_sockets_, "socket stands for PCI devices that have none above them");
    note(without_speed_,
         "PCI devices have no link speed or width: generation 3 with 16 lanes, as NCCL takes them");
    note(asleep_, "PCI devices are at 2.5 GT/s, as they are while asleep: dump the file under load");
    note(without_network_speed_, "adapters have no speed: 10 Gbit/s, as NCCL takes them");
    note(in_gigabits_, "adapters have a speed below 1000: taken for Gbit/s, not Mbit/s");
    note(in_bits_, "adapters have a speed above 3.2 million: taken for bit/s, not Mbit/s");
  }

 public:
  bool is_rdma() const { return is_rdma_; }

 private:
  NodeGraph& graph_;
  std::vector<std::string>& notes_;
  std::vector<std::pair<std::string, double>> sockets_;  // and GB/s to others
  std::vector<std::pair<std::string, pugi::xml_node>> gpus_;
  std::map<std::string, std::string> gpu_of_bus_;
  std::string bare_socket_;
  int switches_ = 0, bare_sockets_ = 0, without_speed_ = 0, asleep_ = 0, without_network_speed_ = 0,
      in_gigabits_ = 0, in_bits_ = 0;
  bool is_rdma_ = false, is_amd_ = false;
};

}  // namespace

Imported import_nccl_topology(std::string_view xml, const ImportOptions& options) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    throw Error(ErrorKind::input, fmt::format("{}: is no XML at byte {}: {}", options.file, parsed.offset,
                                              parsed.description()));
  }
  const pugi::xml_node system = document.child("system");
  if (system == nullptr)
    throw Error(ErrorKind::input, options.file + ": has no element 'system': NCCL_TOPO_DUMP_FILE writes one");
  Imported out;
  NodeGraph graph;
  graph.title = "A machine as NCCL has dumped it, imported";
  Builder builder(graph, out.notes);
  builder.build(system);
  const double version = number_of(system, "version", 1);
  if (version != 1 && version != 2)
    out.notes.push_back(fmt::format("version {:g} of the format is not known: read as version 2", version));
  const int gpus = graph.count(VertexKind::gpu), nics = graph.count(VertexKind::nic);
  if (gpus == 0) throw Error(ErrorKind::input, options.file + ": has no GPU");
  const Transport transport = builder.is_rdma() ? Transport::rdma : Transport::tcp;
  if (!options.network.empty()) {
    graph.network = read_network_text(options.network, transport);
    graph.nic_rates.clear();
  } else if (nics > 0) {
    NetworkDescription network;
    network.transport = transport;
    for (const std::optional<Rate>& rate : graph.nic_rates)
      network.bandwidth = std::max(network.bandwidth, *rate);
    // Only adapters of another speed have one of their own.
    for (std::optional<Rate>& rate : graph.nic_rates)
      if (*rate == network.bandwidth) rate.reset();
    graph.network = network;
  }
  out.summary = fmt::format("{} GPUs, {} NICs, {} links", gpus, nics, graph.joins.size());
  out.content = topology_text(graph);
  return out;
}

}  // namespace foretrain

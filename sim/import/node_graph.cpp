#include "sim/import/node_graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/import/lines.hpp"

namespace foretrain {
namespace {

std::string rate_text(Rate rate) {
  return fmt::format("{:.6g} GB/s", rate.bytes_per_second() * 1e-9);
}

}  // namespace

bool NodeGraph::has(const std::string& name) const {
  return std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.name == name; });
}

int NodeGraph::count(VertexKind kind) const {
  return static_cast<int>(
      std::count_if(parts.begin(), parts.end(), [&](const Part& part) { return part.kind == kind; }));
}

Rate pcie_rate(double gigatransfers, int lanes) {
  // 8 of 10 bits up to 5 GT/s, 128 of 130 from 8 GT/s on.
  const double coding = gigatransfers < 8 ? 0.8 : 128.0 / 130.0;
  return Rate(gigatransfers * 1e9 * coding / 8 * lanes);
}

NetworkDescription read_network_text(const std::string& text, Transport otherwise) {
  NetworkDescription network;
  network.transport = otherwise;
  std::string rate_words;
  for (const std::string_view word : words_of(text)) {
    if (word == "tcp" || word == "rdma") {
      network.transport = word == "tcp" ? Transport::tcp : Transport::rdma;
    } else {
      rate_words += (rate_words.empty() ? "" : " ") + std::string(word);
    }
  }
  const auto rate = parse_rate(rate_words);
  if (const auto* wrong = std::get_if<UnitError>(&rate))
    throw Error(ErrorKind::input, "--network: " + wrong->what + " (as in '100 Gbit/s rdma')");
  network.bandwidth = network.reported = std::get<Rate>(rate);
  return network;
}

std::string topology_text(const NodeGraph& graph) {
  const int nics = graph.count(VertexKind::nic);
  const bool has_network = graph.network && nics > 0;
  const char* loop = has_network ? ", for: { n: nodes }" : "";
  const char* prefix = has_network ? "node{n}." : "node0.";
  const char* node = has_network ? "n" : "0";
  std::string out = "# " + graph.title + '\n';
  if (has_network) {
    out += "parameters: { nodes: 1 }\n";
    out += fmt::format("network: {{ bandwidth: {}, latency: {}, transport: {} }}\n",
                       format_bit_rate(graph.network->bandwidth),
                       graph.network->transport == Transport::rdma ? "1 us" : "10 us",
                       name_of(graph.network->transport));
    out += fmt::format("nics: {}\n", nics);
  }
  out += "vertices:\n";
  for (const NodeGraph::Part& part : graph.parts)
    out += fmt::format("  - {{ name: \"{}{}\", kind: {}, node: {}{} }}\n", prefix, part.name,
                       name_of(part.kind), node, loop);
  if (has_network) out += "  - { name: switch, kind: network_switch }\n";
  out += "links:\n";
  for (const NodeGraph::Join& join : graph.joins) {
    out += fmt::format("  - {{ from: \"{0}{1}\", to: \"{0}{2}\", kind: {3}, class: {4}, bandwidth: {5}",
                       prefix, join.from, join.to, name_of(join.kind), join.link_class, rate_text(join.rate));
    if (join.efficiency) out += fmt::format(", efficiency: {:.4g}", *join.efficiency);
    out += fmt::format("{} }}\n", loop);
  }
  if (!has_network) return out;
  std::size_t index = 0;
  for (const NodeGraph::Part& part : graph.parts) {
    if (part.kind != VertexKind::nic) continue;
    std::string own;
    if (index < graph.nic_rates.size() && graph.nic_rates[index])
      own = ", bandwidth: " + format_bit_rate(*graph.nic_rates[index]);
    out +=
        fmt::format("  - {{ from: \"{}{}\", to: switch, class: nic{}{} }}\n", prefix, part.name, own, loop);
    ++index;
  }
  return out;
}

}  // namespace foretrain

#include "sim/output/topology_drawing.hpp"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <vector>

#include "sim/base/parse_units.hpp"

namespace foretrain {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

const char* shape_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
    case VertexKind::cpu:
      return "box, style=filled, fillcolor=\"#d8ecd0\"";
    case VertexKind::nic:
      return "cds";
    case VertexKind::network_switch:
    case VertexKind::nvswitch:
      return "box3d";
    case VertexKind::pcie_switch:
    case VertexKind::host_bridge:
      return "ellipse";
  }
  return "box";
}

const char* color_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return "#2e7d32";
    case LinkKind::pcie:
      return "#888888";
    case LinkKind::network:
      return "#1565c0";
    case LinkKind::memory:
      return "#ad7a00";
  }
  return "black";
}

// Within its node a vertex needs no more than the end of its name.
std::string label_of(const Vertex& vertex) {
  const std::size_t dot = vertex.name.find('.');
  return vertex.node >= 0 && dot != std::string::npos ? vertex.name.substr(dot + 1) : vertex.name;
}

}  // namespace

std::string topology_dot(const Topology& topology) {
  std::string out = "graph " + quoted(topology.name) + " {\n  graph [ranksep=1, fontname=\"sans-serif\"];\n" +
                    "  node [fontname=\"sans-serif\", fontsize=10];\n" +
                    "  edge [fontname=\"sans-serif\", fontsize=8];\n";
  auto into = std::back_inserter(out);
  std::map<int, std::vector<std::size_t>> by_node;
  for (std::size_t v = 0; v < topology.vertices.size(); ++v) by_node[topology.vertices[v].node].push_back(v);
  for (const auto& [node, members] : by_node) {
    const char* indent = node >= 0 ? "    " : "  ";
    if (node >= 0) fmt::format_to(into, "  subgraph cluster_{0} {{\n    label=\"node {0}\";\n", node);
    for (const std::size_t v : members) {
      const Vertex& vertex = topology.vertices[v];
      fmt::format_to(into, "{}v{} [label={}, shape={}];\n", indent, v, quoted(label_of(vertex)),
                     shape_of(vertex.kind));
    }
    if (node >= 0) out += "  }\n";
  }
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    const Link& link = topology.links[l];
    if (link.reverse >= 0 && link.reverse < static_cast<int>(l)) continue;
    const std::string rate =
        link.kind == LinkKind::network ? format_bit_rate(link.rate) : format_byte_rate(link.rate);
    const bool differs = link.half_duplex || class_of(topology, link).starts_with("changed ");
    fmt::format_to(into, "  v{} -- v{} [label={}, color=\"{}\"{}{}];\n", link.from, link.to, quoted(rate),
                   color_of(link.kind), differs ? ", style=dashed" : "",
                   link.reverse < 0 ? ", dir=forward" : "");
  }
  return out + "}\n";
}

}  // namespace foretrain

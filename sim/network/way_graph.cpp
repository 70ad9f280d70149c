#include "sim/network/way_graph.hpp"

namespace foretrain {
namespace {

std::int8_t length_of(const Topology& topology, const Link& link) {
  if (link.kind == LinkKind::network) return 3;
  if (link.kind != LinkKind::pcie) return 2;
  auto is_bridge = [&](int vertex) {
    return topology.vertices[static_cast<std::size_t>(vertex)].kind == VertexKind::host_bridge;
  };
  return is_bridge(link.from) && is_bridge(link.to) ? WayGraph::longest_link : 3;
}

}  // namespace

WayGraph::WayGraph(const Topology& topology) {
  node_.reserve(topology.vertices.size());
  kind_.reserve(topology.vertices.size());
  for (const Vertex& vertex : topology.vertices) {
    node_.push_back(vertex.node);
    const bool is_worker = vertex.kind == VertexKind::gpu || vertex.kind == VertexKind::cpu;
    kind_.push_back(is_worker                                                      ? Kind::worker
                    : vertex.node < 0 || vertex.kind == VertexKind::network_switch ? Kind::outside
                                                                                   : Kind::inside);
  }
  auto lay = [&](Side& side, auto end_of) {
    side.first.assign(topology.vertices.size() + 1, 0);
    for (const Link& link : topology.links) ++side.first[static_cast<std::size_t>(end_of(link)) + 1];
    for (std::size_t v = 1; v < side.first.size(); ++v) side.first[v] += side.first[v - 1];
    side.links.resize(topology.links.size());
    std::vector<std::uint32_t> next(side.first.begin(), side.first.end() - 1);
    for (std::size_t i = 0; i < topology.links.size(); ++i) {
      const Link& link = topology.links[i];
      const int here = end_of(link);
      side.links[next[static_cast<std::size_t>(here)]++] = {
          here == link.from ? link.to : link.from, static_cast<int>(i), length_of(topology, link), link.kind};
    }
  };
  lay(leaving_, [](const Link& link) { return link.from; });
  lay(arriving_, [](const Link& link) { return link.to; });
}

}  // namespace foretrain

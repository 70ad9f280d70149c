// One machine as other tools describe it -> an explicit graph as topologies/ have it, of any number of such
// nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/network/topology.hpp"

namespace foretrain {

struct NodeGraph {
  struct Part {
    std::string name;  // within the node: "gpu0", "bridge1"
    VertexKind kind = VertexKind::gpu;
  };
  struct Join {
    std::string from, to;
    LinkKind kind = LinkKind::pcie;
    std::string link_class;
    Rate rate;
    std::optional<double> efficiency;  // else by its kind
  };
  std::string title;  // the comment on top
  std::vector<Part> parts;
  std::vector<Join> joins;
  std::optional<NetworkDescription> network;   // none: one node, and its NICs lead nowhere
  std::vector<std::optional<Rate>> nic_rates;  // of nic0, nic1, ... where they differ from the network's

  void add(std::string name, VertexKind kind) { parts.push_back({std::move(name), kind}); }
  bool has(const std::string& name) const;
  int count(VertexKind kind) const;
};

// YAML that sim/input/graph_reader reads.
std::string topology_text(const NodeGraph& graph);

// "100 Gbit/s rdma", "25 Gbit/s tcp 30us" as --network has it. Throws Error(input).
NetworkDescription read_network_text(const std::string& text, Transport otherwise);

// PCI Express: 2.5 GT/s of generation 1 and so on; bytes per second and direction of so many lanes.
Rate pcie_rate(double gigatransfers, int lanes);

}  // namespace foretrain

#include "sim/network/topology.hpp"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>
#include <utility>

#include "sim/base/error.hpp"

namespace foretrain {

const char* name_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
      return "gpu";
    case VertexKind::cpu:
      return "cpu";
    case VertexKind::nic:
      return "nic";
    case VertexKind::pcie_switch:
      return "pcie_switch";
    case VertexKind::host_bridge:
      return "host_bridge";
    case VertexKind::nvswitch:
      return "nvswitch";
    case VertexKind::network_switch:
      return "network_switch";
  }
  return "?";
}

const char* name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return "nvlink";
    case LinkKind::pcie:
      return "pcie";
    case LinkKind::network:
      return "network";
    case LinkKind::memory:
      return "memory";
  }
  return "?";
}

const char* name_of(Transport transport) {
  return transport == Transport::tcp ? "tcp" : "rdma";
}

const char* name_of(RouteChoice choice) {
  switch (choice) {
    case RouteChoice::hash:
      return "hash";
    case RouteChoice::spread:
      return "spread";
    case RouteChoice::first:
      return "first";
  }
  return "?";
}

std::string NetworkDescription::name() const {
  return fmt::format("ethernet {:g} Gbit/s {}", bandwidth.in_bits_per_second() * 1e-9, name_of(transport));
}

int Topology::find_link(int from, int to) const {
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].from == from && links[i].to == to) return static_cast<int>(i);
  }
  return -1;
}

int LinkClasses::index(std::string_view name) {
  const auto found = index_.find(name);
  if (found != index_.end()) return found->second;
  const auto fresh = static_cast<int>(names_.size());
  names_.emplace_back(name);
  index_.emplace(name, fresh);
  return fresh;
}

std::string name_of(const Topology& topology, const Link& link) {
  auto end = [&](int vertex) -> std::string {
    const bool exists = vertex >= 0 && static_cast<std::size_t>(vertex) < topology.vertices.size();
    return exists ? topology.vertices[static_cast<std::size_t>(vertex)].name : "?";
  };
  return end(link.from) + '>' + end(link.to);
}

const std::string& class_of(const Topology& topology, const Link& link) {
  return topology.link_classes.name(link.link_class);
}

int find_vertex(const Topology& topology, std::string_view name) {
  for (std::size_t i = 0; i < topology.vertices.size(); ++i) {
    if (topology.vertices[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int add_vertex(Topology& topology, std::string name, VertexKind kind, int node) {
  topology.vertices.push_back({std::move(name), kind, node});
  return static_cast<int>(topology.vertices.size()) - 1;
}

int add_link_pair(Topology& topology, int a, int b, const LinkProperties& properties) {
  const int first = static_cast<int>(topology.links.size());
  const bool is_like_last = first > 0 && class_of(topology, topology.links.back()) == properties.link_class;
  const int link_class =
      is_like_last ? topology.links.back().link_class : topology.link_classes.index(properties.link_class);
  auto add = [&](int from, int to, int reverse) {
    Link& link = topology.links.emplace_back();
    link.link_class = link_class;
    link.kind = properties.kind;
    link.from = from;
    link.to = to;
    link.rate = properties.rate;
    link.efficiency = properties.efficiency;
    link.latency = properties.latency;
    link.half_duplex = properties.half_duplex;
    link.reverse = reverse;
  };
  add(a, b, first + 1);
  add(b, a, first);
  return first;
}

namespace {

void find_faults(const Topology& topology, std::vector<Diagnostic>& findings) {
  auto find = [&findings](std::string what) { findings.push_back({{}, std::move(what)}); };
  const int vertices = static_cast<int>(topology.vertices.size());
  const int links = static_cast<int>(topology.links.size());
  for (const Link& link : topology.links) {
    auto find_in_link = [&](const std::string& what) {
      find("link '" + name_of(topology, link) + "' " + what);
    };
    if (link.from < 0 || link.from >= vertices || link.to < 0 || link.to >= vertices) {
      find_in_link("ends at a vertex that does not exist");
      continue;
    }
    if (link.from == link.to) find_in_link("begins and ends at the same vertex");
    if (!(link.rate.bytes_per_second() > 0) || !std::isfinite(link.rate.bytes_per_second())) {
      find_in_link("has no bandwidth: give it one above zero");
    }
    if (!(link.efficiency > 0 && link.efficiency <= 1)) {
      find_in_link(fmt::format("has efficiency {:g}: it lies above 0 and is at most 1", link.efficiency));
    }
    if (link.background < Rate() || !(link.payload_rate() > 0 || link.rate == Rate())) {
      find_in_link("has background traffic that leaves nothing of its rate");
    }
    if (link.latency < Time()) find_in_link("has a negative latency");
    if (link.reverse >= links) find_in_link("names a reverse that does not exist");
    if (link.half_duplex && link.reverse < 0) find_in_link("is half duplex and has no reverse");
  }
  if (topology.workers.empty()) find("the topology has no workers: give it GPUs or CPU workers");
  if (!topology.compute_factors.empty() && topology.compute_factors.size() < topology.workers.size()) {
    find("compute factors are given for some workers only");
  }
  std::vector<char> is_taken(topology.vertices.size(), 0);
  for (int worker : topology.workers) {
    if (worker < 0 || worker >= vertices) {
      find("a worker stands on a vertex that does not exist");
    } else if (std::exchange(is_taken[static_cast<std::size_t>(worker)], 1) != 0) {
      find("two workers stand on vertex '" + topology.vertices[static_cast<std::size_t>(worker)].name + "'");
    }
  }
}

}  // namespace

void validate(const Topology& topology) {
  std::vector<Diagnostic> findings;
  find_faults(topology, findings);
  if (!findings.empty()) throw Error(std::move(findings));
}

void validate_with_names(const Topology& topology) {
  std::vector<Diagnostic> findings;
  auto find = [&findings](std::string what) { findings.push_back({{}, std::move(what)}); };
  std::unordered_set<std::string_view> names;
  names.reserve(topology.vertices.size());
  for (const Vertex& vertex : topology.vertices) {
    if (vertex.name.empty()) find("a vertex has no name");
    if (!names.insert(vertex.name).second) find("two vertices have the name '" + vertex.name + "'");
  }
  find_faults(topology, findings);
  if (!findings.empty()) throw Error(std::move(findings));
}

}  // namespace foretrain

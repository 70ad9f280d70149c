// A cluster as a directed graph: GPUs (or CPU workers), switches, NICs and host bridges; links with rate and
// latency in each direction. Built from a family with parameters or from an explicit graph; routed in
// sim/network/routes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace foretrain {

enum class VertexKind { gpu, cpu, nic, pcie_switch, host_bridge, nvswitch, network_switch };
const char* name_of(VertexKind kind);

struct Vertex {
  std::string name;  // "node3.gpu0"
  VertexKind kind = VertexKind::gpu;
  int node = -1;  // -1: outside any node (a switch of the network)
};

enum class LinkKind : std::uint8_t { nvlink, pcie, network, memory };
const char* name_of(LinkKind kind);

// One direction of a link. Two directions are two links that name each other as `reverse`. Clusters have a
// million of them: names are made of their ends (name_of) and kept once a class (class_of).
struct Link {
  int from = -1, to = -1;  // vertices
  int reverse = -1;        // index of the other direction
  int link_class = 0;      // index into Topology::link_classes
  LinkKind kind = LinkKind::network;
  bool half_duplex = false;  // both directions share the rate
  Rate rate;                 // line rate of this direction
  double efficiency = 1;     // payload over line rate (protocol overhead of tcp, rdma)
  Time latency;
  Rate background;  // payload of other traffic, which leaves the rest

  // Payload in bytes per second that it carries for us.
  double payload_rate() const { return rate.bytes_per_second() * efficiency - background.bytes_per_second(); }
};

enum class Transport { tcp, rdma };
const char* name_of(Transport transport);

// Names of classes: equal links share one ("nic", "nvlink"), and results report one entry a class.
class LinkClasses {
 public:
  // Of a name that is new a new one.
  int index(std::string_view name);
  const std::string& name(int index) const { return names_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> index_;
};

// How one of several equally short ways is chosen: by a hash of both ends and a seed, as switches do; so that
// each link gets about as many; or the first in the order of the links.
enum class RouteChoice { hash, spread, first };
const char* name_of(RouteChoice choice);

// The network between nodes as a scenario gives it, before it becomes links.
struct NetworkDescription {
  Rate bandwidth;  // line rate of one NIC and direction
  Time latency;    // of one link; from node to node over a switch a message crosses two
  Transport transport = Transport::tcp;
  Rate reported;  // what the NIC tells NCCL
  RouteChoice routes = RouteChoice::hash;
  std::uint64_t route_seed = 1;
  std::string name() const;  // "ethernet 10 Gbit/s tcp", as CollectiveEntry::network
};

struct Topology {
  std::string name;  // family or file
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  LinkClasses link_classes;
  std::vector<int> workers;  // vertices of the workers in rank order; they fill nodes in order
  int nodes = 1;
  int gpus_per_node = 1;  // of the fullest node
  int nics_per_node = 0;
  NetworkDescription network;  // rate 0 where there is one node
  // Time of a worker's kernels over that of the profile's device: of slower GPUs, of stragglers. Empty:
  // all 1.
  std::vector<double> compute_factors;

  // Index of the first link from one vertex to another, -1 where there is none.
  int find_link(int from, int to) const;
};

// "node3.nic0>switch"
std::string name_of(const Topology& topology, const Link& link);
const std::string& class_of(const Topology& topology, const Link& link);

// Index of the vertex of that name, -1 where there is none.
int find_vertex(const Topology& topology, std::string_view name);

// Adds a vertex and returns its index.
int add_vertex(Topology& topology, std::string name, VertexKind kind, int node);

struct LinkProperties {
  std::string link_class;
  LinkKind kind = LinkKind::network;
  Rate rate;
  double efficiency = 1;
  Time latency;
  bool half_duplex = false;
};

// Adds both directions of a link and returns the index of a>b; b>a is the next one.
int add_link_pair(Topology& topology, int a, int b, const LinkProperties& properties);

// Throws an Error with every finding: dangling ends, rates that are not above zero, no workers.
void validate(const Topology& topology);
// As well of vertices without a name or with one that another has.
void validate_with_names(const Topology& topology);

// What a scenario's `cluster` became.
struct Cluster {
  Topology topology;
  std::string family;  // "ethernet-nodes", or the file
};

}  // namespace foretrain

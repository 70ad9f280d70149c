// A cluster as a directed graph: GPUs (or CPU workers), switches, NICs and host bridges; links with rate and
// latency in each direction. Built from a family with parameters or from an explicit graph; routed in
// sim/network/routes.
#pragma once

#include <cstdint>
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

enum class LinkKind { nvlink, pcie, network, memory };
const char* name_of(LinkKind kind);

// One direction of a link. Two directions are two links that name each other as `reverse`.
struct Link {
  std::string name;        // "node3.nic0>switch"
  std::string link_class;  // equal links share it: "nic", "nvlink"; results report one entry a class
  LinkKind kind = LinkKind::network;
  int from = -1, to = -1;  // vertices
  Rate rate;               // line rate of this direction
  double efficiency = 1;   // payload over line rate (protocol overhead of tcp, rdma)
  Time latency;
  int reverse = -1;          // index of the other direction
  bool half_duplex = false;  // both directions share the rate
  Rate background;           // payload of other traffic, which leaves the rest

  // Payload in bytes per second that it carries for us.
  double payload_rate() const { return rate.bytes_per_second() * efficiency - background.bytes_per_second(); }
};

enum class Transport { tcp, rdma };
const char* name_of(Transport transport);

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

// Throws an Error with every finding: dangling ends, rates that are not above zero, doubled names, no
// workers.
void validate(const Topology& topology);

// What a scenario's `cluster` became.
struct Cluster {
  Topology topology;
  std::string family;  // "ethernet-nodes", or the file
};

}  // namespace foretrain

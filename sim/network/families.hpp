// Parametrized clusters: a few numbers become a Topology. Each link's rate is the line rate of one direction.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "sim/network/fabrics.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

// Payload over line rate. tcp: a frame of 1,538 bytes on the wire (preamble, Ethernet, gap) carries 1,448 of
// payload at an MTU of 1,500 with time stamps. rdma: NCCL counts 12 GB/s for a NIC of 100 Gbit/s (topo.h,
// NET_BW), 24 of 25 GB/s at 200.
double transport_efficiency(Transport transport);

// What joins the GPUs of a node: NVLink to an NVSwitch; NVLink from GPU to GPU as in a DGX-1 (a hybrid mesh
// of two fours) or in pairs, with PCIe for the rest; PCIe alone.
enum class InsideLink { nvlink, nvlink_mesh, nvlink_pairs, pcie };
const char* name_of(InsideLink kind);  // "nvlink", "nvlink-mesh", ...

struct InsideDescription {
  InsideLink kind = InsideLink::nvlink;
  Rate bandwidth;  // of one GPU and direction
  double efficiency = 1;
  int pcie_generation = 5;
  // PCIe switches, each with its share of the GPUs and NICs, spread over the host bridges. 0: a bridge a NIC.
  int pcie_switches = 0;
  int host_bridges = 1;  // sockets, where there are switches
};

// NVLink 4 of Hopper: 18 links of 25 GB/s, of which NCCL counts 20.6 (topo.h, SM90_NVLINK_BW).
InsideDescription nvlink_of_hopper();
// NVLink 2 of Volta: 6 links of 25 GB/s, of which NCCL counts 20 (topo.h, SM70_NVLINK_BW).
InsideDescription nvlink_of_volta();
// NVLink 3 of Ampere: 12 links of 25 GB/s, of which NCCL counts 20 (topo.h, SM80_NVLINK_BW).
InsideDescription nvlink_of_ampere();
// PCIe of a generation with 16 lanes: 15.75 GB/s at 3, twice that a generation; NCCL counts 12 of 15.75.
InsideDescription pcie_of_generation(int generation);

// `nvlink-node`: GPUs around an NVSwitch; more than one node needs a network.
struct NvlinkNode {
  int gpus_per_node = 1;
  int nodes = 1;
  InsideDescription inside = nvlink_of_hopper();
  std::optional<NetworkDescription> network;
};
Topology make_topology(const NvlinkNode& family);

// `ethernet-nodes`: nodes of GPUs, one or several NICs each, around one switch that never blocks.
struct EthernetNodes {
  int nodes = 1;
  int gpus_per_node = 1;
  int nics = 1;
  InsideDescription inside = nvlink_of_hopper();
  NetworkDescription network;
};
Topology make_topology(const EthernetNodes& family);

// Nodes as in `ethernet-nodes` whose NICs a fabric of switches joins.
struct Torus {
  std::vector<int> sides;
};
using FabricShape = std::variant<LeafSpineShape, FatTreeShape, RailShape, DragonflyShape, Torus, WanShape>;
struct FabricNodes {
  EthernetNodes nodes;
  FabricShape shape;
};
Topology make_topology(const FabricNodes& family);

// `one-node`: CPU workers that share the memory of one machine.
struct OneNode {
  int workers = 1;
  Rate bandwidth = Rate(8e9);  // of one worker through memory; a measured profile overrides it
};
Topology make_topology(const OneNode& family);

// `star`: hosts of one worker around a switch; links carry their full line rate. One host may be slow.
struct Star {
  int hosts = 2;
  Rate bandwidth;
  Time latency;
  struct Slow {
    int host = 0;
    Rate bandwidth;
  };
  std::optional<Slow> slow;
};
Topology make_topology(const Star& family);

}  // namespace foretrain

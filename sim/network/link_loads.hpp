// What a set of transfers puts on each link of a topology.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/network/collectives.hpp"
#include "sim/network/routes.hpp"

namespace foretrain {

// What changes on every link at once, in a what-if: rates of the network's links, of those within nodes, and
// all latencies.
struct WireFactors {
  double network = 1, inside = 1, latency = 1;
  bool operator==(const WireFactors&) const = default;
};

// The busiest of the links of one kind and payload rate.
struct WireLoad {
  LinkKind kind = LinkKind::network;
  double rate = 0, background = 0;  // payload (line rate x efficiency), and what others take of it
  double share = 0;                 // bytes over S
  double seconds_per_byte(const WireFactors& factors = {}) const;  // for S = 1
};

// The busiest link of a class of equal links.
struct ClassLoad {
  std::string link_class;
  LinkKind kind = LinkKind::network;
  int used = 0;      // links of the class that carry anything
  double share = 0;  // bytes on the busiest over S
};

struct LinkLoads {
  std::vector<ClassLoad> classes;  // by name
  std::vector<WireLoad> wires;
  Time longest_latency;         // of one transfer's way
  double most_from_worker = 0;  // bytes over S that leave one worker, over all its links

  // Of the slowest link of the network, and of the nodes' insides, for S = 1; of both.
  double network_seconds_per_byte(const WireFactors& factors = {}) const;
  double inside_seconds_per_byte(const WireFactors& factors = {}) const;
  double seconds_per_byte(const WireFactors& factors = {}) const;
};

// Bytes over S of each link, in the order of the topology's links; of half-duplex ones on the first
// direction.
std::vector<double> link_shares(const Topology& topology, Routes& routes, const RankGroup& group,
                                std::span<const Transfer> transfers);

// `extra` adds shares on links by themselves.
LinkLoads link_loads(const Topology& topology, Routes& routes, const RankGroup& group,
                     std::span<const Transfer> transfers, std::span<const std::pair<int, double>> extra = {});

// Of what each link carries, bytes over S. Where that varies, the busiest of links that are alike is what
// half of all outcomes stay below, the links taken for normal and independent; without variances it is known.
LinkLoads link_loads(const Topology& topology, const RankGroup& group, std::span<const double> shares,
                     std::span<const double> variances, Time longest_latency);

}  // namespace foretrain

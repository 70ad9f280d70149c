// The same flows over the same links and ways in SimGrid, set to plain max-min: what ours is held against.
#pragma once

#include <span>
#include <vector>

#include "sim/network/routes.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

struct PeerFlow {
  int from = 0, to = 0;  // ranks
  double bytes = 0;
};

// How SimGrid keeps its rates. lazy, its default, updates what it takes to be touched, and in 3.32 gives
// wrong times where many flows begin at once (rates that its own full update, and progressive filling from
// nothing, do not have). full is right, and slower in most cases.
enum class PeerUpdate { lazy, full };

// Seconds at which each flow is through where all start at once: ours, and SimGrid's. SimGrid can be asked
// once a process.
std::vector<double> own_times(const Topology& topology, std::span<const PeerFlow> flows);
std::vector<double> simgrid_times(const Topology& topology, std::span<const PeerFlow> flows,
                                  PeerUpdate update = PeerUpdate::full);

// Seconds of a ring all-reduce of `bytes` over all ranks, chunk by chunk.
double own_ring(const Topology& topology, double bytes);
double simgrid_ring(const Topology& topology, double bytes, PeerUpdate update = PeerUpdate::full);

// Bare hosts of one worker each: rate and latency of a host's link, in Gbit/s and microseconds; links between
// switches have none.
enum class PeerShape { star, fat_tree, dragonfly };
Topology peer_topology(PeerShape shape, int hosts, double gigabits, double latency);

// `each` flows a host to random others, of random sizes from 1 to 10 MB; to all others in turn where each is
// 0.
std::vector<PeerFlow> random_flows(int hosts, int each, std::uint64_t seed);

}  // namespace foretrain

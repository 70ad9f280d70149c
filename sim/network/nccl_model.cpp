#include "sim/network/nccl_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "sim/network/nccl_constants.hpp"

namespace foretrain {
namespace {

namespace constants = nccl_constants;

constexpr std::array<const char*, nccl_protocol_count> protocol_names = {"LL", "LL128", "Simple"};
constexpr int most_channels = 32;  // of a search; twice as many run
constexpr double gb = 1e9, us = 1e-6;

int index_of(NcclProtocol protocol) {
  return static_cast<int>(protocol);
}
int index_of(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::tree ? constants::tree : constants::ring;
}

int log2_floor(std::uint64_t value) {
  return value == 0 ? 0 : std::bit_width(value) - 1;
}

std::span<const double> speeds(GpuGeneration generation, bool between) {
  switch (generation) {
    case GpuGeneration::hopper:
      return between ? std::span<const double>(constants::speeds_between_hopper)
                     : std::span<const double>(constants::speeds_inside_hopper);
    case GpuGeneration::blackwell:
      return between ? std::span<const double>(constants::speeds_between_blackwell)
                     : std::span<const double>(constants::speeds_inside_blackwell);
    default:
      return between ? std::span<const double>(constants::speeds_between)
                     : std::span<const double>(constants::speeds_inside);
  }
}

// Fast channels are split in two (search.cc, ncclTopoDupChannels).
void split_channels(NcclGraph& graph, GpuGeneration generation) {
  if (graph.channels == 0 || graph.inside < 25) return;
  if (generation >= GpuGeneration::hopper && graph.inside < 50 && graph.channels > 4) return;
  const int split = std::min(graph.channels * 2, most_channels);
  const int parts = (split + graph.channels - 1) / graph.channels;
  graph.inside /= parts;
  graph.between /= parts;
  graph.channels = split;
}

// Within a node each channel takes its speed of every GPU's links: as many as fit. The search goes down the
// speeds while the next is at least 0.49 of the best found, and keeps what moves most.
NcclGraph channels_inside(const NcclSystem& system) {
  NcclGraph graph;
  for (double speed : speeds(system.generation, false)) {
    if (speed > system.inside_gb_per_s) continue;
    if (graph.channels > 0 && speed / graph.inside <= 0.49) break;
    const int count =
        system.nvlink ? std::min(most_channels, static_cast<int>(system.inside_gb_per_s / speed)) : 1;
    if (count * speed > graph.channels * graph.inside) graph = {count, speed, speed};
  }
  if (graph.channels == 0) graph = {1, system.inside_gb_per_s, system.inside_gb_per_s};
  split_channels(graph, system.generation);
  return graph;
}

// Between nodes there is a channel a NIC at the next lower speed of the list.
NcclGraph channels_between(const NcclSystem& system) {
  NcclGraph graph{system.nics, system.nic_gb_per_s, system.nic_gb_per_s};
  const double fit = std::min(system.nic_gb_per_s,
                              system.inside_gb_per_s > 0 ? system.inside_gb_per_s : system.nic_gb_per_s);
  for (double speed : speeds(system.generation, true)) {
    if (speed > fit) continue;
    graph = {system.nics, speed, speed};
    break;
  }
  split_channels(graph, system.generation);
  return graph;
}

// Trees may run faster within the node than between: the speed rises while it is below twice that of the NIC
// and the node's links carry it. Two nodes are counted at that speed.
NcclGraph trees_between(const NcclSystem& system, NcclGraph graph) {
  const std::span<const double> list = speeds(system.generation, true);
  while (graph.inside < 2 * graph.between) {
    double faster = 0;
    for (double speed : list) {
      if (speed > graph.inside) faster = speed;
    }
    const bool fits = system.ranks == system.nodes || faster * graph.channels <= system.inside_gb_per_s;
    if (faster == 0 || !fits) break;
    graph.inside = faster;
  }
  return graph;
}

}  // namespace

const char* name_of(NcclProtocol protocol) {
  return protocol_names[static_cast<std::size_t>(protocol)];
}

std::optional<NcclProtocol> nccl_protocol(std::string_view name) {
  auto same = [](std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
      auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
      return upper(x) == upper(y);
    });
  };
  for (int p = 0; p < nccl_protocol_count; ++p) {
    if (same(name, protocol_names[static_cast<std::size_t>(p)])) return static_cast<NcclProtocol>(p);
  }
  return std::nullopt;
}

double wire_efficiency(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::ll:
      return 0.5;
    case NcclProtocol::ll128:
      return 120.0 / 128.0;
    case NcclProtocol::simple:
      return 1;
  }
  return 1;
}

GpuGeneration gpu_generation(std::string_view compute_capability) {
  if (compute_capability.starts_with("7.")) return GpuGeneration::volta;
  if (compute_capability.starts_with("8.")) return GpuGeneration::ampere;
  if (compute_capability.starts_with("10.") || compute_capability.starts_with("12.")) {
    return GpuGeneration::blackwell;
  }
  return GpuGeneration::hopper;
}

NcclModel::NcclModel(const NcclSystem& system) : system_(system) {
  if (system.nodes == 1) {
    rings_ = trees_ = channels_inside(system);
  } else {
    rings_ = channels_between(system);
    trees_ = trees_between(system, rings_);
  }
  channels_ = std::min(2 * most_channels, 2 * rings_.channels);
  const bool is_new = system.generation >= GpuGeneration::hopper;
  if (is_new && system.nodes > 1 && rings_.inside > 45 && channels_ < 16) channels_ *= 2;
}

bool NcclModel::is_enabled(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol) const {
  if (!has_algorithm(kind, algorithm)) return false;
  // Between nodes messages of single ranks have no buffers for LL.
  if (algorithm == CollectiveAlgorithm::direct)
    return protocol == NcclProtocol::simple || (protocol == NcclProtocol::ll && system_.nodes == 1);
  if (protocol != NcclProtocol::ll128) return true;
  return system_.nvlink && (system_.nodes == 1 || system_.nic_is_near);
}

double NcclModel::base_latency(CollectiveAlgorithm algorithm, NcclProtocol protocol) const {
  return us * constants::base_latencies[index_of(algorithm)][index_of(protocol)];
}

double NcclModel::inside_latency(CollectiveAlgorithm algorithm, NcclProtocol protocol) const {
  const auto& table = system_.nvlink ? constants::nvlink_latencies : constants::pcie_latencies;
  double latency = table[index_of(algorithm)][index_of(protocol)];
  if (algorithm == CollectiveAlgorithm::ring && system_.nodes > 1) {  // each step still posts to the network
    const double post = system_.is_amd_processor ? 2.0 : 1.0;
    latency = std::max(latency, protocol == NcclProtocol::simple ? 3 * post : post);
  }
  return us * latency;
}

double NcclModel::between_latency(CollectiveAlgorithm algorithm, NcclProtocol protocol) const {
  // With one GPU a node nothing hides the network: NCCL then counts the tree's latency for rings too.
  const int row = system_.ranks == system_.nodes ? constants::tree : index_of(algorithm);
  return us * constants::network_latencies[row][index_of(protocol)];
}

double NcclModel::latency(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol) const {
  const double base = base_latency(algorithm, protocol);
  const double inside = inside_latency(algorithm, protocol);
  const double between = between_latency(algorithm, protocol);
  const int ranks = system_.ranks, nodes = system_.nodes;
  if (algorithm == CollectiveAlgorithm::tree) {
    return base +
           2 * ((ranks / nodes - 1) * inside + log2_floor(static_cast<std::uint64_t>(nodes)) * between);
  }
  if (algorithm == CollectiveAlgorithm::direct) return base + (nodes > 1 ? between : inside);
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce) {
    return base +
           (nodes > 1 ? us * constants::network_latencies[constants::ring][index_of(protocol)] : inside);
  }
  const int steps = ring_steps(kind, ranks);
  const int steps_between = nodes == 1 ? 0 : ring_steps(kind, nodes);
  return base + (steps - steps_between) * inside + steps_between * between;
}

double NcclModel::bandwidth(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol) const {
  const bool is_tree = algorithm == CollectiveAlgorithm::tree;
  const NcclGraph& graph = is_tree ? trees_ : rings_;
  const int nodes = system_.nodes;
  const int column = std::min(nodes, 3) - 1;
  const int generation = static_cast<int>(system_.generation);
  const int ll_row = nodes == 1 ? generation : (system_.is_amd_processor ? 1 : 0);
  const double ll_limit = constants::ll_limits[ll_row][column];
  double bus = graph.channels * (nodes <= 2 ? graph.inside : graph.between);
  if (!is_tree) {
    if (protocol == NcclProtocol::ll) bus = std::min(ll_limit, bus * 0.5);
    if (protocol == NcclProtocol::ll128) {
      bus =
          std::min(bus * 0.92, graph.channels * constants::ring_ll128_limits_per_channel[generation][column]);
    }
    return gb * bus / bus_factor(kind, system_.ranks);
  }
  bus = std::min(bus * 0.92, graph.channels * constants::tree_limits_per_channel[generation][column]);
  if (protocol == NcclProtocol::ll) bus = std::min(bus / 3.8, ll_limit);
  if (protocol == NcclProtocol::ll128) {
    bus = std::min(bus * (nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                   graph.channels * constants::tree_ll128_limits_per_channel[generation][column]);
  }
  return gb * bus * 0.5;
}

double NcclModel::latency_factor(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                                 double bytes) const {
  const bool is_long_ring = algorithm == CollectiveAlgorithm::ring && protocol == NcclProtocol::simple &&
                            system_.nodes > 1 && kind == CollectiveKind::all_reduce &&
                            bytes / (channels_ * system_.ranks) >= 64;
  if (!is_long_ring) return 1;
  return system_.generation == GpuGeneration::volta ? 1.9 : 1.4;
}

double NcclModel::estimate(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                           double bytes) const {
  double rate = bandwidth(kind, algorithm, protocol);
  const auto size = static_cast<std::uint64_t>(bytes);
  const int step = log2_floor(size >> 6);
  if (algorithm == CollectiveAlgorithm::tree && step < constants::tree_correction_sizes) {
    rate *= constants::tree_corrections[index_of(protocol)][step];
  }
  return latency(kind, algorithm, protocol) * latency_factor(kind, algorithm, protocol, bytes) + bytes / rate;
}

int NcclModel::channels_of(CollectiveAlgorithm algorithm, NcclProtocol protocol, double bytes) const {
  const bool is_ring = algorithm == CollectiveAlgorithm::ring;
  constexpr double pcie = 12;  // GB/s up to which a ring takes half of the threads
  const bool is_slow = is_ring && rings_.inside * rings_.channels <= pcie;
  const int threads = protocol == NcclProtocol::ll128               ? 640
                      : protocol == NcclProtocol::simple && is_slow ? 256
                                                                    : 512;
  int least_bytes = protocol == NcclProtocol::simple ? 64 : 8;  // of a thread
  if (protocol == NcclProtocol::ll && is_ring) least_bytes *= system_.ranks;
  const double least = static_cast<double>(threads) * least_bytes;
  return std::clamp(static_cast<int>(std::min(bytes / least, 1e6)), 1, std::max(1, channels_));
}

double NcclModel::most_direct_ll_bytes() const {
  const double links = system_.nvlink ? system_.inside_gb_per_s /
                                            constants::nvlink_speeds[static_cast<int>(system_.generation)]
                                      : 1;
  const auto channels = std::bit_floor(static_cast<unsigned>(std::max(1.0, 2 * links + 0.5)));
  return constants::direct_ll_bytes * channels;
}

NcclChoice NcclModel::choose(CollectiveKind kind, double bytes,
                             std::optional<CollectiveAlgorithm> only) const {
  NcclChoice best{default_algorithm(kind), NcclProtocol::simple, std::numeric_limits<double>::infinity()};
  if (only) best.algorithm = *only;
  if (system_.ranks < 2) return {best.algorithm, best.protocol, 0};
  for (CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::tree, CollectiveAlgorithm::ring, CollectiveAlgorithm::direct}) {
    if (only && algorithm != *only) continue;
    for (int p = 0; p < nccl_protocol_count; ++p) {
      const auto protocol = static_cast<NcclProtocol>(p);
      if (!is_enabled(kind, algorithm, protocol)) continue;
      if (algorithm == CollectiveAlgorithm::direct && system_.nodes == 1) {  // by size alone
        const double to_a_peer = kind == CollectiveKind::all_to_all ? bytes / system_.ranks : bytes;
        if ((to_a_peer <= most_direct_ll_bytes()) != (protocol == NcclProtocol::ll)) continue;
      }
      const double seconds = estimate(kind, algorithm, protocol, bytes);
      if (seconds < best.seconds) best = {algorithm, protocol, seconds};
    }
  }
  return best;
}

}  // namespace foretrain

// NCCL's published model of choice and cost: which algorithm and protocol it takes for a collective, and how
// long it thinks that it takes. Constants and formulas from NVIDIA/nccl 2.30.7 (commit 5067397c),
// src/graph/tuning.cc, search.cc and topo.h; re-implemented here from their description, for the choice
// exactly and for the cost as a start where nothing is measured.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sim/network/collectives.hpp"

namespace foretrain {

enum class NcclProtocol { ll, ll128, simple };
inline constexpr int nccl_protocol_count = 3;
const char* name_of(NcclProtocol protocol);  // "LL", "LL128", "Simple", as NCCL writes them
std::optional<NcclProtocol> nccl_protocol(std::string_view name);
// Payload over bytes on the wire: LL sends a flag with each 4 bytes, LL128 8 bytes of flag in 128.
double wire_efficiency(NcclProtocol protocol);

enum class GpuGeneration { volta, ampere, hopper, blackwell };
// From a compute capability such as "9.0"; what is not known counts as hopper.
GpuGeneration gpu_generation(std::string_view compute_capability);

// What NCCL knows about a group of ranks when it makes its plan.
struct NcclSystem {
  GpuGeneration generation = GpuGeneration::hopper;
  int ranks = 1;
  int nodes = 1;
  bool nvlink = true;          // all GPUs of a node reach each other by NVLink
  double inside_gb_per_s = 0;  // of one GPU and direction, as NCCL counts it (18 x 20.6 on Hopper)
  int nics = 1;                // of a node
  double nic_gb_per_s = 0;     // as the NIC reports it
  bool nic_is_near = false;    // behind the same PCIe switch as its GPU (RDMA): LL128 may cross nodes
  bool is_amd_processor = false;
  bool operator==(const NcclSystem&) const = default;
};

// The channels that its search finds, of rings or trees.
struct NcclGraph {
  int channels = 0;
  double inside = 0, between = 0;  // GB/s of one channel within and between nodes
};

struct NcclChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  double seconds = 0;  // as NCCL estimates it
};

class NcclModel {
 public:
  explicit NcclModel(const NcclSystem& system);

  const NcclSystem& system() const { return system_; }
  const NcclGraph& rings() const { return rings_; }
  const NcclGraph& trees() const { return trees_; }
  int channels() const { return channels_; }  // of a collective: twice the graph's, as NCCL doubles them

  // Whether NCCL would consider the pair at all.
  bool is_enabled(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol) const;
  // Seconds before the first byte has arrived everywhere, and bytes of S a second after.
  double latency(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol) const;
  double bandwidth(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol) const;
  // By how much rings of Simple over nodes take longer to start once their channels are full; else 1.
  double latency_factor(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                        double bytes) const;
  // NCCL's estimate in seconds, with its corrections for trees of medium size and rings over nodes.
  double estimate(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                  double bytes) const;
  // What NCCL picks, among all pairs or those of one algorithm.
  NcclChoice choose(CollectiveKind kind, double bytes,
                    std::optional<CollectiveAlgorithm> only = std::nullopt) const;

  // Channels that a ring or tree of a size runs on (src/enqueue.cc): fewer while each would have less than
  // its threads can carry.
  int channels_of(CollectiveAlgorithm algorithm, NcclProtocol protocol, double bytes) const;

  // Latencies in seconds that NCCL counts: once a collective; a step within a node; a step between nodes.
  double base_latency(CollectiveAlgorithm algorithm, NcclProtocol protocol) const;
  double inside_latency(CollectiveAlgorithm algorithm, NcclProtocol protocol) const;
  double between_latency(CollectiveAlgorithm algorithm, NcclProtocol protocol) const;

 private:
  // Up to which a message to one rank of the node goes by LL (src/enqueue.cc): two channels a link.
  double most_direct_ll_bytes() const;

  NcclSystem system_;
  NcclGraph rings_, trees_;
  int channels_ = 0;
};

}  // namespace foretrain

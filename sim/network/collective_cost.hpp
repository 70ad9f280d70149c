// The one answer to "how long does this collective take by itself on these ranks": measured where the profile
// holds it, fitted where it holds relatives, else by NCCL's model and the wires of the topology.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/network/contention.hpp"
#include "sim/network/link_loads.hpp"
#include "sim/network/nccl_model.hpp"
#include "sim/network/topology.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// Bytes that the busiest link of a class carries, with the flags of the protocol, without headers of the
// transport.
struct WireUse {
  std::string link_class;
  LinkKind kind = LinkKind::network;
  double bytes = 0;
  int links = 0;  // of the class that carry anything
};

// CPU workers exchange by Gloo: a ring, of all-reduce a bcube too where it is asked for, and no protocols. So
// say the profile, which may be missing, or the topology's workers, of which there is one at least.
bool workers_are_cpus(const Topology& topology, const Profile* measured);

struct CollectiveCost {
  Time time;
  Origin origin = Origin::assumed;
  double relative_uncertainty = 0;  // 90 % half width
  std::string algorithm, protocol;  // "ring", "LL"; protocol empty without NCCL
  bool extrapolated = false;        // size, ranks or network outside what was measured
  std::string range;                // what was measured, in words; empty where nothing
  std::vector<WireUse> wire;
};

struct CollectiveChoice {
  std::optional<CollectiveAlgorithm> algorithm;  // default: what the library picks
  std::optional<NcclProtocol> protocol;
  bool library = true;   // false: plain flows, line rate and latency of the links, no library constants
  bool measured = true;  // false: nothing that was measured of collectives, constants and wires alone
};

// Keeps a reference to the topology; the profile is read at construction and may be null. Remembers groups of
// ranks: one model (with those made from it) a thread.
class CollectiveModel {
 public:
  CollectiveModel(const Topology& topology, const Profile* measured);
  // Shares what it reads of the profile with all others of that profile.
  CollectiveModel(const Topology& topology, const std::shared_ptr<const Profile>& measured);
  ~CollectiveModel();
  CollectiveModel(CollectiveModel&&) noexcept;
  CollectiveModel& operator=(CollectiveModel&&) noexcept;

  // The same cluster with every network link (and what NICs report) of another rate, every link of another
  // latency. Shares ways and loads with this one.
  CollectiveModel with(const WireFactors& factors) const;

  // `ranks` are global ranks. One rank takes no time. Throws where no path joins two of them.
  CollectiveCost cost(CollectiveKind kind, Bytes bytes, Precision element, std::span<const int> ranks,
                      const CollectiveChoice& choice = {}) const;

  // For which part of the time of `cost` each link that it uses is busy.
  std::vector<LinkBusy> busy(CollectiveKind kind, Bytes bytes, std::span<const int> ranks,
                             const CollectiveCost& cost) const;

  // What NCCL would see of a group, for tables and explanations.
  const NcclModel& library(std::span<const int> ranks) const;

 private:
  struct State;
  explicit CollectiveModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace foretrain

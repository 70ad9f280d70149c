// The collectives of a profile, arranged for prediction: curves where kind and placement were measured, and
// fits of latency and bandwidth over rank counts or networks where they were not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/network/least_squares.hpp"
#include "sim/network/measured_curve.hpp"
#include "sim/network/nccl_model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// A placement of ranks on nodes and the network between them; line_rate 0 within a node, and network what
// joins its GPUs ("nvlink", "pcie").
struct CollectivePlacement {
  int ranks = 1, nodes = 1;
  std::string network;
  double line_rate = 0;  // bytes per second and direction of a node
  Transport transport = Transport::tcp;
  int nics = 1;          // of a node, which share the line rate
  double host_rate = 0;  // bytes a second that one rank's network thread sends and receives; 0: no limit
};

// Of networks that differ by their reading of a rate alone.
bool is_same_line_rate(double a, double b);

// Ways in which the time of a collective grows: what a fit multiplies.
struct CollectiveTerms {
  double steps = 0;  // one after the other: within the node, or between nodes where there are several
  double bytes = 0;  // S
  // Within the node bytes a rank sends; between nodes seconds of a NIC at line rate, or what takes the host
  // longer over the payload's share of the line.
  double traffic = 0;
};
// Bytes that a node sends over S with ranks spread evenly: ring by ranks, tree 1, 1.5 or 2 by nodes.
double node_share(CollectiveKind kind, CollectiveAlgorithm algorithm, int ranks, int nodes);
// Bytes that the busiest network thread of a node sends and receives over S. Each rank has one. A ring enters
// a node at one GPU and leaves it at another; a tree goes up and down through the same.
double thread_share(CollectiveKind kind, CollectiveAlgorithm algorithm, const CollectivePlacement& placement);
CollectiveTerms collective_terms(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                                 const CollectivePlacement& placement, double bytes);

struct FittedTime {
  double seconds = 0;
  double relative_uncertainty = 0;  // 90 % half width
  std::string range;                // ranks and sizes that the fit rests on
};

class CollectiveMeasurements {
 public:
  // `system` is what NCCL would see of one node; its ranks, nodes and NIC are set per placement. A CPU
  // profile has one algorithm and no protocols.
  CollectiveMeasurements(const Profile* profile, NcclSystem system, bool is_cpu);

  // The curve for exactly this placement: what the library picks, or one algorithm by itself; null where not
  // measured. Entries of the asked element are preferred, then any.
  const MeasuredCurve* curve(CollectiveKind kind, const CollectivePlacement& placement, Precision element,
                             const std::string& algorithm) const;

  // Line rates of measured networks of this transport next to one: itself alone, else the next below and
  // above, with the weight of each (by the logarithm of the rate). Empty within a node and where there is
  // none.
  struct Neighbour {
    double line_rate = 0, weight = 1;
  };
  std::vector<Neighbour> measured_rates(const CollectivePlacement& placement) const;

  // Time by the fit over the placements that were measured: within a node over rank counts; between nodes
  // over those of the networks of its transport next to it in line rate.
  std::optional<FittedTime> fitted(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                                   const CollectivePlacement& placement, double bytes) const;

  // Payload over line rate that networks of this transport gave in large collectives; nothing where not
  // measured.
  std::optional<double> network_efficiency(Transport transport) const;

  // Where large collectives stay below the line and by so much the further as a thread has to send and to
  // receive at once, the host's copies are the limit, which other numbers of GPUs a node share out otherwise.
  // What a thread moved there, and the 90 % half width of that; nothing where the line was the limit.
  struct HostRate {
    double bytes_per_second = 0, relative_uncertainty = 0;
  };
  std::optional<HostRate> host_rate(Transport transport) const;

  // Seconds of one step of a ring between nodes of this network, as measured; nothing where not.
  std::optional<double> step_latency(NcclProtocol protocol, const CollectivePlacement& placement) const;

  // NCCL's model for a placement, with the NIC's reported speed.
  NcclModel model(int ranks, int nodes, int nics, Rate reported) const;

  bool is_cpu() const { return is_cpu_; }
  bool inside_is_nvlink() const { return system_.nvlink; }
  // Payload of a GPU's links within its node on the machine that was measured; 0: not known.
  double inside_rate() const { return inside_rate_; }

 private:
  struct Fit {
    LinearFit line;  // within a node
    bool one_rank_count = false;
    // Between nodes: seconds of a step, and of a second of traffic. Steps show at sizes that latency rules,
    // traffic at large ones; a linear fit takes the one for the other.
    double step = 0, traffic = 0;
    double residual = 0;           // relative, root mean square
    double streamed_residual = 0;  // of sizes that latency and bursts no longer bend
    int least_ranks = 0, most_ranks = 0;
    double least_bytes = 0, most_bytes = 0;
    double seconds(NcclProtocol protocol, const CollectiveTerms& terms, bool is_between) const;
  };
  using FitKey = std::tuple<CollectiveKind, CollectiveAlgorithm, NcclProtocol, std::string>;

  void add_fits(const Profile& profile);
  void find_host_rates(const Profile& profile);
  NcclSystem system_;
  bool is_cpu_ = false;
  double inside_rate_ = 0;
  // kind, ranks, nodes, network, algorithm, element
  std::map<std::tuple<std::string, int, int, std::string, std::string, std::string>, MeasuredCurve> curves_;
  std::map<FitKey, Fit> fits_;
  std::string network_of(const CollectivePlacement& placement) const;
  const Fit* fit_of(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                    CollectivePlacement placement, double line_rate) const;

  std::map<Transport, std::vector<double>> rates_;  // line rates of measured networks, rising
  std::map<Transport, double> efficiencies_;
  std::map<Transport, HostRate> host_rates_;
};

}  // namespace foretrain

#include "sim/network/collective_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/parse_units.hpp"
#include "sim/network/collective_measurements.hpp"
#include "sim/network/families.hpp"
#include "sim/network/shared_measurements.hpp"
#include "sim/network/wires.hpp"

namespace foretrain {
namespace {

// Relative 90 % half widths of what is not measured: of NCCL's latencies, of its bandwidths within a node, of
// the payload that a network carries. Held against published runs in validation.
constexpr double latency_doubt = 1.0, inside_doubt = 0.12, network_doubt = 0.06;
// Of Gloo's collectives where nothing of them is measured: what its threads take is not known at all.
constexpr double gloo_doubt = 0.5;

// Of a GPU by what it is joined with, where no profile names it: NVLink 2 to 5, or PCIe 3 to 5.
GpuGeneration generation_by(double inside_rate, bool nvlink) {
  if (nvlink) {
    return inside_rate <= 150e9   ? GpuGeneration::volta
           : inside_rate <= 300e9 ? GpuGeneration::ampere
           : inside_rate <= 450e9 ? GpuGeneration::hopper
                                  : GpuGeneration::blackwell;
  }
  return inside_rate <= 16e9   ? GpuGeneration::volta
         : inside_rate <= 32e9 ? GpuGeneration::ampere
                               : GpuGeneration::hopper;
}

// What the topology and the profile tell NCCL about one node.
NcclSystem system_of(const Topology& topology, const Profile* profile) {
  NcclSystem system;
  if (profile != nullptr && !profile->runs.empty()) {
    const Machine& machine = profile->runs.front().machine;
    system.generation = gpu_generation(machine.compute_capability);
    system.is_amd_processor = machine.processor.find("AMD") != std::string::npos;
  }
  system.nvlink = false;
  system.nic_is_near = topology.network.transport == Transport::rdma;
  const int first = topology.workers.front();
  double nvlink_rate = 0, other_rate = 0;  // line rates
  for (const Link& link : topology.links) {
    if (link.from != first || link.kind == LinkKind::network) continue;
    const double rate = link.rate.bytes_per_second() * link.efficiency * 1e-9;
    if (link.kind == LinkKind::nvlink) {
      nvlink_rate += link.rate.bytes_per_second();
      system.inside_gb_per_s = system.nvlink ? system.inside_gb_per_s + rate : rate;
      system.nvlink = true;
    } else if (!system.nvlink) {
      other_rate = std::max(other_rate, link.rate.bytes_per_second());
      system.inside_gb_per_s = std::max(system.inside_gb_per_s, rate);
    }
  }
  const double line_rate = system.nvlink ? nvlink_rate : other_rate;
  if ((profile == nullptr || profile->runs.empty()) && line_rate > 0) {
    system.generation = generation_by(line_rate, system.nvlink);
  }
  return system;
}

struct Estimate {
  double seconds = 0;
  double relative_uncertainty = 0;
  Origin origin = Origin::assumed;
  bool extrapolated = false;
  std::string range;
};

double combine(double a, double b) {
  return std::sqrt(a * a + b * b);
}

}  // namespace

bool workers_are_cpus(const Topology& topology, const Profile* measured) {
  return (measured != nullptr && measured->device == "cpu") ||
         topology.vertices[static_cast<std::size_t>(topology.workers.front())].kind == VertexKind::cpu;
}

struct CollectiveModel::State {
  struct Group {
    GroupWires* wires = nullptr;
    NcclModel model;
  };

  const Topology* topology;
  std::shared_ptr<Wires> wires;
  std::shared_ptr<const CollectiveMeasurements> measured;
  WireFactors factors;
  std::map<const GroupWires*, Group> groups;

  State(const Topology& t, std::shared_ptr<const CollectiveMeasurements> collectives)
      : topology(&t), wires(std::make_shared<Wires>(t)), measured(std::move(collectives)) {}

  State(const State& of, const WireFactors& f)
      : topology(of.topology), wires(of.wires), measured(of.measured), factors(f) {}

  Group& group(std::span<const int> ranks) {
    GroupWires& asked = wires->group(ranks);
    const auto found = groups.find(&asked);
    if (found != groups.end()) return found->second;
    NcclModel model = measured->model(asked.ranks.ranks, asked.ranks.nodes, topology->nics_per_node,
                                      topology->network.reported * factors.network);
    return groups.emplace(&asked, Group{&asked, std::move(model)}).first->second;
  }

  CollectivePlacement placement(const RankGroup& ranks) const {
    CollectivePlacement placement;
    placement.ranks = ranks.ranks;
    placement.nodes = ranks.nodes;
    placement.network = measured->inside_is_nvlink() ? "nvlink" : "pcie";
    if (ranks.nodes > 1) {
      NetworkDescription network = topology->network;
      network.bandwidth = network.bandwidth * factors.network;
      placement.line_rate = network.bandwidth.bytes_per_second() * std::max(1, topology->nics_per_node);
      placement.transport = network.transport;
      placement.network = network.name();
      placement.nics = std::max(1, topology->nics_per_node);
      if (const auto host = measured->host_rate(network.transport))
        placement.host_rate = host->bytes_per_second;
    }
    return placement;
  }

  static bool goes_by_rounds(CollectiveAlgorithm algorithm) {
    return algorithm == CollectiveAlgorithm::halving_doubling ||
           algorithm == CollectiveAlgorithm::hierarchical || algorithm == CollectiveAlgorithm::in_network ||
           algorithm == CollectiveAlgorithm::parameter_server || algorithm == CollectiveAlgorithm::bcube;
  }

  // Closed form of plain flows: every step waits for its link's latency and its chunk. A chunk that goes
  // round meets every link; one link may also be busy all the time: the longer of both.
  double plain_seconds(Group& group, CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes) {
    const RankGroup& ranks = group.wires->ranks;
    if (goes_by_rounds(algorithm)) {
      const RoundCost& cost = wires->rounds(*group.wires, kind, algorithm);
      return cost.latency * factors.latency + bytes * cost.seconds_per_byte(factors);
    }
    const LinkLoads& load = wires->loads(*group.wires, kind, algorithm);
    const double slowest = load.seconds_per_byte(factors);
    const double latency = load.longest_latency.in_seconds() * factors.latency;
    if (algorithm == CollectiveAlgorithm::direct) return latency + bytes * slowest;
    if (algorithm == CollectiveAlgorithm::tree) {
      return 2 * depth(binary_tree(ranks.nodes)) * latency + bytes * slowest;
    }
    const int steps = ring_steps(kind, ranks.ranks);
    const int between = ranks.nodes > 1 ? ring_steps(kind, ranks.nodes) : steps;
    return between * latency + bytes * slowest;
  }

  // NCCL's latencies, the wires of the topology: what is left where nothing like it was measured->
  Estimate modelled(Group& group, CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                    double bytes) {
    const RankGroup& ranks = group.wires->ranks;
    const NcclModel& model = group.model;
    const LinkLoads& load = wires->loads(*group.wires, kind, algorithm);
    Estimate estimate;
    double latency = 0, transfer = 0, doubt = inside_doubt;
    if (goes_by_rounds(algorithm)) {
      // NCCL does not have them so: its ring's latency for each round (assumed).
      const RoundCost& cost = wires->rounds(*group.wires, kind, algorithm);
      latency = model.base_latency(CollectiveAlgorithm::ring, protocol) + cost.latency * factors.latency +
                cost.inside * model.inside_latency(CollectiveAlgorithm::ring, protocol) +
                cost.between * model.between_latency(CollectiveAlgorithm::ring, protocol);
      transfer = bytes / wire_efficiency(protocol) * cost.seconds_per_byte(factors);
      doubt = 2 * inside_doubt;
    } else if (ranks.nodes < 2) {
      latency = model.latency(kind, algorithm, protocol);
      transfer = std::max(bytes / (model.bandwidth(kind, algorithm, protocol) * factors.inside),
                          bytes * load.inside_seconds_per_byte(factors));
    } else {
      const double inside = model.inside_latency(algorithm, protocol);
      const double way = load.longest_latency.in_seconds();
      double between = model.between_latency(algorithm, protocol) + way * factors.latency;
      // A step of another algorithm goes over the same sockets.
      if (const auto step = measured->step_latency(protocol, placement(ranks)))
        between = std::max(*step + way * (factors.latency - 1), model.between_latency(algorithm, protocol));
      const auto [inside_steps, between_steps] = steps_of(ranks, kind, algorithm);
      latency = (model.base_latency(algorithm, protocol) + inside_steps * inside + between_steps * between) *
                model.latency_factor(kind, algorithm, protocol, bytes);
      const double corrected = load.network_seconds_per_byte(factors) * network_correction(load);
      double slowest = std::max(corrected, load.inside_seconds_per_byte(factors));
      doubt = network_doubt;
      if (const auto host = measured->host_rate(topology->network.transport)) {
        const double copies = thread_share(kind, algorithm, placement(ranks)) / host->bytes_per_second;
        if (copies > slowest) doubt = combine(doubt, host->relative_uncertainty);
        slowest = std::max(slowest, copies);
      }
      transfer = bytes / wire_efficiency(protocol) * slowest;
    }
    estimate.seconds = latency + transfer;
    estimate.relative_uncertainty = combine(latency_doubt * latency, doubt * transfer) / estimate.seconds;
    return estimate;
  }

  // Gloo's messages take the wires as plain flows do. What its own threads take a byte and a message is
  // measured among the workers of one node: they work while the wires carry, so that the slower of both
  // decides, but every message costs its start and its way.
  Estimate gloo(Group& group, CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                double bytes) {
    const RankGroup& ranks = group.wires->ranks;
    const double wires_alone = plain_seconds(group, kind, algorithm, bytes);
    CollectivePlacement one_node;
    one_node.ranks = ranks.ranks;
    // Two ranks do the same in a ring and a bcube: the one that was measured serves for both.
    const CollectiveAlgorithm like = default_algorithm(kind);
    const auto threads = measured->fitted(kind, like, protocol, one_node, bytes);
    const auto start = measured->fitted(kind, like, protocol, one_node, 4);
    if (ranks.nodes < 2 || !threads || !start) return {wires_alone, gloo_doubt, Origin::assumed, true, ""};
    const double seconds = std::max(wires_alone + start->seconds, threads->seconds);
    return {seconds, combine(network_doubt, start->seconds / seconds), Origin::fitted, true, threads->range};
  }

  // Steps one after the other within and between nodes.
  static std::pair<int, int> steps_of(const RankGroup& ranks, CollectiveKind kind,
                                      CollectiveAlgorithm algorithm) {
    if (algorithm == CollectiveAlgorithm::direct) return {0, 1};
    if (algorithm == CollectiveAlgorithm::tree) {
      return {2 * (ranks.most_per_node - 1), 2 * depth(binary_tree(ranks.nodes))};
    }
    const int between = ring_steps(kind, ranks.nodes);
    return {ring_steps(kind, ranks.ranks) - between, between};
  }

  // The links of a network carry what its like carried when measured, not what their transport promises.
  double network_correction(const LinkLoads& load) const {
    const auto efficiency = measured->network_efficiency(topology->network.transport);
    if (!efficiency) return 1;
    for (const Link& link : topology->links) {
      if (link.kind == LinkKind::network && link.efficiency < 1) {
        return load.network_seconds_per_byte() > 0 ? link.efficiency / *efficiency : 1;
      }
    }
    return 1;
  }

  Estimate unmeasured(Group& group, CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                      double bytes, bool may_be_fitted = true) {
    const CollectivePlacement where = placement(group.wires->ranks);
    const auto fit = may_be_fitted ? measured->fitted(kind, algorithm, protocol, where, bytes) : std::nullopt;
    if (fit) return {fit->seconds, fit->relative_uncertainty, Origin::fitted, true, fit->range};
    if (measured->is_cpu()) return gloo(group, kind, algorithm, protocol, bytes);
    Estimate estimate = modelled(group, kind, algorithm, protocol, bytes);
    estimate.extrapolated = true;
    return estimate;
  }

  // How much longer it takes over a line of that share of the rate, by the fits over the measured sizes.
  std::optional<double> on_slower_line(CollectiveKind kind, CollectiveAlgorithm algorithm,
                                       NcclProtocol protocol, const CollectivePlacement& where, double share,
                                       double bytes) const {
    CollectivePlacement slower = where;
    slower.line_rate *= share;
    const auto at_here = measured->fitted(kind, algorithm, protocol, where, bytes);
    const auto there = measured->fitted(kind, algorithm, protocol, slower, bytes);
    if (!at_here || !there) return std::nullopt;
    return there->seconds / at_here->seconds;
  }

  // What was measured holds for a plain network of its name, and for the links of the machine that was
  // measured. Where the cluster described has slower wires or longer ways, these count.
  void heed_description(Group& group, CollectiveKind kind, CollectiveAlgorithm algorithm,
                        NcclProtocol protocol, double bytes, Estimate& estimate) {
    constexpr double alike = 1.02;
    const RankGroup& ranks = group.wires->ranks;
    const CollectivePlacement where = placement(ranks);
    const LinkLoads& load = wires->loads(*group.wires, kind, algorithm);
    const double on_wire = bytes / wire_efficiency(protocol);
    double described = 0;
    if (ranks.nodes > 1) {
      const double plain = node_share(kind, algorithm, ranks.ranks, ranks.nodes) /
                           (where.line_rate * transport_efficiency(where.transport));
      const double asked = load.seconds_per_byte(factors);
      const double way = load.longest_latency.in_seconds() * factors.latency;
      // A latency is written down from memory more often than measured: it counts where it is out of the
      // question that the measured step had it.
      constexpr double surely = 2;
      const double step = measured->step_latency(protocol, where).value_or(way);
      const bool is_longer = way > surely * step;
      if (asked <= alike * plain && !is_longer) return;
      if (const auto carried = is_longer
                                   ? std::nullopt
                                   : on_slower_line(kind, algorithm, protocol, where, plain / asked, bytes)) {
        estimate.seconds *= std::max(1.0, *carried);
        estimate.relative_uncertainty = combine(estimate.relative_uncertainty, network_doubt);
        estimate.origin = Origin::fitted;
        estimate.extrapolated = true;
        estimate.range += estimate.range.empty() ? "" : ", on faster wires";
        return;
      }
      const int steps = steps_of(ranks, kind, algorithm).second;
      described = steps * (is_longer ? way : step) + on_wire * std::max(asked, plain);
    } else {
      const double measured_inside = measured->inside_rate();
      if (!(measured_inside > 0)) return;
      double plain = load.most_from_worker / measured_inside;
      for (const WireLoad& wire : load.wires) plain = std::max(plain, wire.share / measured_inside);
      const double asked = load.inside_seconds_per_byte(factors);
      // Faster than what was measured: what latency leaves shrinks with the wires.
      if (alike * asked < plain) {
        const double latency = std::min(estimate.seconds, group.model.latency(kind, algorithm, protocol));
        const double saved = (estimate.seconds - latency) * (1 - asked / plain);
        estimate.seconds -= saved;
        estimate.relative_uncertainty += saved / 2 / estimate.seconds;
        estimate.origin = Origin::fitted;
        estimate.extrapolated = true;
        estimate.range += estimate.range.empty() ? "" : ", on slower wires";
        return;
      }
      if (asked <= alike * plain) return;
      described = group.model.latency(kind, algorithm, protocol) + on_wire * asked;
    }
    if (described <= estimate.seconds) return;
    estimate.relative_uncertainty =
        combine(estimate.relative_uncertainty, ranks.nodes > 1 ? network_doubt : inside_doubt);
    estimate.seconds = described;
    estimate.origin = Origin::assumed;
    estimate.extrapolated = true;
    estimate.range += estimate.range.empty() ? "" : ", on faster wires";
  }

  // A curve inside its range as it is; outside, its end scaled as the model grows from there.
  // `model`: of the library where it was measured, which chose there.
  Estimate from_curve(Group& group, const MeasuredCurve& curve, const NcclModel& model, CollectiveKind kind,
                      double bytes, const CollectiveChoice& choice, std::string& algorithm,
                      std::string& protocol) {
    // Over a network a channel is a connection: more than one is seen in the time of small sizes.
    const bool counts_channels = group.wires->ranks.nodes > 1 && !measured->is_cpu();
    auto picks = [&](double size, const std::string& own_algorithm, const std::string& own_protocol) {
      NcclChoice pick = model.choose(kind, size, choice.algorithm);
      pick.algorithm = collective_algorithm(own_algorithm).value_or(pick.algorithm);
      pick.protocol = nccl_protocol(own_protocol).value_or(pick.protocol);
      const std::string label = choice_label(name_of(pick.algorithm), name_of(pick.protocol));
      if (!counts_channels) return label;
      return fmt::format("{} {}", label, std::min(2, model.channels_of(pick.algorithm, pick.protocol, size)));
    };
    auto modelled_at = [&](double size) {
      const auto pick = measured->is_cpu() ? NcclChoice{default_algorithm(kind), NcclProtocol::simple, 0}
                                           : model.choose(kind, size, choice.algorithm);
      return unmeasured(group, kind, pick.algorithm, pick.protocol, size).seconds;
    };
    const double nearest = std::clamp(bytes, curve.smallest(), curve.largest());
    const MeasuredCurve::Reading reading =
        counts_channels ? curve.at(nearest, picks, modelled_at) : curve.at(nearest, picks);
    Estimate estimate{reading.seconds, reading.relative_uncertainty, Origin::measured, false, ""};
    if (!reading.algorithm.empty()) algorithm = reading.algorithm;
    if (!reading.protocol.empty()) protocol = reading.protocol;
    estimate.range = fmt::format("{} to {}", format_bytes(curve.smallest()), format_bytes(curve.largest()));
    if (bytes == nearest) return estimate;
    const double growth = modelled_at(bytes) / modelled_at(nearest);
    estimate.seconds *= bytes > nearest ? std::max(1.0, growth) : std::min(1.0, growth);
    estimate.origin = Origin::fitted;
    estimate.extrapolated = true;
    estimate.relative_uncertainty += 0.02 * std::abs(std::log2(bytes / nearest));
    return estimate;
  }

  // Of this very placement; over a network that was not measured, of the networks next to it in line rate, as
  // the fits over their sizes carry them from rate to rate.
  std::optional<Estimate> from_curves(Group& group, CollectiveKind kind, double bytes, Precision element,
                                      const std::string& wanted, const CollectiveChoice& choice,
                                      std::string& algorithm, std::string& protocol) {
    const CollectivePlacement here = placement(group.wires->ranks);
    // One size tells of no other: how a time grows from there would be a guess beyond all measure.
    const MeasuredCurve* own_curve = measured->curve(kind, here, element, wanted);
    if (own_curve != nullptr && (own_curve->points().size() > 1 || own_curve->contains(bytes)))
      return from_curve(group, *own_curve, group.model, kind, bytes, choice, algorithm, protocol);
    std::optional<Estimate> estimate;
    double logarithm = 0, weights = 0;
    for (const auto& [line_rate, weight] : measured->measured_rates(here)) {
      CollectivePlacement there = here;
      there.line_rate = line_rate;
      const MeasuredCurve* curve = measured->curve(kind, there, element, wanted);
      if (curve == nullptr || !curve->contains(bytes)) continue;
      // NCCL chooses by what the NIC reports: where that is the line rate, it was another one there.
      const RankGroup& ranks = group.wires->ranks;
      const NetworkDescription& network = topology->network;
      const bool reports_line_rate =
          is_same_line_rate(network.reported.bytes_per_second(), network.bandwidth.bytes_per_second());
      const double reported = network.reported.bytes_per_second() * factors.network *
                              (reports_line_rate ? line_rate / here.line_rate : 1);
      const NcclModel chose =
          measured->model(ranks.ranks, ranks.nodes, topology->nics_per_node, Rate(reported));
      if (!measured->is_cpu()) {
        const NcclChoice chosen = chose.choose(kind, bytes, choice.algorithm);
        algorithm = name_of(chosen.algorithm);
        protocol = name_of(chosen.protocol);
      }
      const Estimate read = from_curve(group, *curve, chose, kind, bytes, choice, algorithm, protocol);
      const auto own = collective_algorithm(algorithm);
      const NcclProtocol by = nccl_protocol(protocol).value_or(NcclProtocol::simple);
      if (!own || !has_algorithm(kind, *own)) continue;
      const auto at_here = measured->fitted(kind, *own, by, here, bytes);
      const auto at_there = measured->fitted(kind, *own, by, there, bytes);
      if (!at_here || !at_there) continue;
      logarithm += weight * std::log(read.seconds * at_here->seconds / at_there->seconds);
      weights += weight;
      const double doubt =
          combine(read.relative_uncertainty, 0.05 * std::abs(std::log2(here.line_rate / line_rate)));
      if (!estimate) estimate = Estimate{0, 0, Origin::fitted, true, at_here->range};
      estimate->relative_uncertainty = std::max(estimate->relative_uncertainty, doubt);
    }
    if (estimate) estimate->seconds = std::exp(logarithm / weights);
    return estimate;
  }
};

CollectiveModel::CollectiveModel(const Topology& topology, const Profile* measured) {
  validate(topology);
  state_ = std::make_unique<State>(
      topology, std::make_shared<CollectiveMeasurements>(measured, system_of(topology, measured),
                                                         workers_are_cpus(topology, measured)));
}
CollectiveModel::CollectiveModel(const Topology& topology, const std::shared_ptr<const Profile>& measured) {
  validate(topology);
  state_ =
      std::make_unique<State>(topology, shared_measurements(measured, system_of(topology, measured.get()),
                                                            workers_are_cpus(topology, measured.get())));
}
CollectiveModel::CollectiveModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
CollectiveModel::~CollectiveModel() = default;
CollectiveModel::CollectiveModel(CollectiveModel&&) noexcept = default;
CollectiveModel& CollectiveModel::operator=(CollectiveModel&&) noexcept = default;

CollectiveModel CollectiveModel::with(const WireFactors& factors) const {
  return CollectiveModel(std::make_unique<State>(*state_, factors));
}

const NcclModel& CollectiveModel::library(std::span<const int> ranks) const {
  return state_->group(ranks).model;
}

CollectiveCost CollectiveModel::cost(CollectiveKind kind, Bytes bytes, Precision element,
                                     std::span<const int> ranks, const CollectiveChoice& choice) const {
  State& state = *state_;
  State::Group& group = state.group(ranks);
  Wires& wires = *state.wires;
  const auto size = static_cast<double>(bytes.count());
  CollectiveCost cost;
  const bool has_library = choice.library && !state.measured->is_cpu();
  NcclChoice pick{choice.algorithm.value_or(default_algorithm(kind)), NcclProtocol::simple, 0};
  if (has_library && !State::goes_by_rounds(pick.algorithm)) {
    pick = group.model.choose(kind, size, choice.algorithm);
  }
  if (choice.protocol) pick.protocol = *choice.protocol;
  cost.algorithm = name_of(pick.algorithm);
  if (has_library) cost.protocol = name_of(pick.protocol);
  if (group.wires->ranks.ranks < 2 || bytes.count() == 0) {
    cost.origin = Origin::measured;
    return cost;
  }
  const LinkLoads& asked = wires.loads(*group.wires, kind, pick.algorithm);  // throws where no path is

  Estimate estimate;
  if (!choice.library) {
    estimate.seconds = state.plain_seconds(group, kind, pick.algorithm, size);
  } else {
    const bool is_named = choice.algorithm && (has_library || *choice.algorithm != default_algorithm(kind));
    const std::string wanted = is_named ? name_of(*choice.algorithm) : "auto";
    const bool may_read = !choice.protocol && choice.measured;
    const auto read = may_read ? state.from_curves(group, kind, size, element, wanted, choice, cost.algorithm,
                                                   cost.protocol)
                               : std::nullopt;
    estimate =
        read ? *read : state.unmeasured(group, kind, pick.algorithm, pick.protocol, size, choice.measured);
    if (estimate.origin != Origin::assumed && !state.measured->is_cpu()) {
      // As it was measured, which may not be what NCCL's model picks.
      const auto own = collective_algorithm(cost.algorithm);
      state.heed_description(group, kind, own && has_algorithm(kind, *own) ? *own : pick.algorithm,
                             nccl_protocol(cost.protocol).value_or(pick.protocol), size, estimate);
    }
  }
  cost.time = Time::seconds(estimate.seconds);
  cost.origin = estimate.origin;
  cost.relative_uncertainty = estimate.relative_uncertainty;
  cost.extrapolated = estimate.extrapolated;
  cost.range = estimate.range;

  const auto measured_algorithm = collective_algorithm(cost.algorithm);
  const bool is_other =
      measured_algorithm && *measured_algorithm != pick.algorithm && has_algorithm(kind, *measured_algorithm);
  const LinkLoads& load = is_other ? wires.loads(*group.wires, kind, *measured_algorithm) : asked;
  const auto protocol = nccl_protocol(cost.protocol).value_or(NcclProtocol::simple);
  for (const ClassLoad& each : load.classes) {
    cost.wire.push_back(
        {each.link_class, each.kind, size * each.share / wire_efficiency(protocol), each.used});
  }
  return cost;
}

std::vector<LinkBusy> CollectiveModel::busy(CollectiveKind kind, Bytes bytes, std::span<const int> ranks,
                                            const CollectiveCost& cost) const {
  std::vector<LinkBusy> out;
  const auto algorithm = collective_algorithm(cost.algorithm);
  if (ranks.size() < 2 || !(cost.time > Time())) return out;
  const auto protocol = nccl_protocol(cost.protocol).value_or(NcclProtocol::simple);
  const double on_wire = static_cast<double>(bytes.count()) / wire_efficiency(protocol);
  const bool is_known = algorithm && has_algorithm(kind, *algorithm);
  const std::vector<double> shares = state_->wires->shares(state_->wires->group(ranks), kind,
                                                           is_known ? *algorithm : default_algorithm(kind));
  for (std::size_t l = 0; l < shares.size(); ++l) {
    if (shares[l] == 0) continue;
    const Link& link = state_->topology->links[l];
    const WireLoad wire{link.kind, link.rate.bytes_per_second() * link.efficiency,
                        link.background.bytes_per_second(), shares[l]};
    const double seconds = on_wire * wire.seconds_per_byte(state_->factors);
    out.push_back({static_cast<int>(l), std::min(1.0, seconds / cost.time.in_seconds())});
  }
  return out;
}

}  // namespace foretrain

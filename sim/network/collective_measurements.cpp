#include "sim/network/collective_measurements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "sim/base/parse_units.hpp"
#include "sim/base/quantile.hpp"
#include "sim/network/families.hpp"

namespace foretrain {
namespace {

// Sizes from which a collective over a network is limited by its wire, for the efficiency of the network.
constexpr double wire_bound_bytes = 16e6;
// Of what the transport leaves of the line: above it the line is the limit. By how much more of the line
// threads carry that only send or only receive, where it is they that limit the others.
constexpr double near_line = 0.9, one_way_gain = 1.1;

// A network within 1 % of the line rate and of the same transport is the same network. Within a node NVLink
// is one kind of links and all else another.
std::string network_key(const std::string& name, double line_rate, int nodes) {
  if (nodes < 2) return name == "nvlink" ? "nvlink" : "other";
  const bool is_rdma = name.find("rdma") != std::string::npos || name.find("RoCE") != std::string::npos ||
                       name.find("InfiniBand") != std::string::npos;
  return fmt::format("{:.2e} {}", line_rate, is_rdma ? "rdma" : "tcp");
}

Transport transport_of(const std::string& name) {
  return network_key(name, 1, 2).ends_with("rdma") ? Transport::rdma : Transport::tcp;
}

CollectivePlacement placement_of(const CollectiveEntry& entry) {
  return {entry.ranks, entry.nodes, entry.network, entry.line_rate, transport_of(entry.network)};
}

std::string known_or(const std::string& name, const std::string& otherwise) {
  return name.empty() || name == "auto" ? otherwise : name;
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// By the links that the driver names ("NV18", 25 GB/s each); else 0.
double inside_rate_of(const Profile& profile) {
  if (profile.runs.empty()) return 0;
  const std::string& link = profile.runs.front().machine.link;
  int links = 0;
  if (!link.starts_with("NV") || std::sscanf(link.c_str() + 2, "%d", &links) != 1 || links < 1) return 0;
  constexpr double of_a_link = 25e9;
  return links * of_a_link * nvlink_of_hopper().efficiency;
}

struct Row {
  CollectivePlacement placement;
  double bytes, seconds;
};

// Of an even number the upper of the two in the middle: a time that was measured.
double upper_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Payload over line rate of the rows that their wire limits; at most 1.
std::vector<double> wire_efficiencies(const std::vector<Row>& rows, CollectiveKind kind,
                                      CollectiveAlgorithm algorithm, NcclProtocol protocol) {
  std::vector<double> all;
  for (const Row& row : rows) {
    if (row.placement.nodes < 2 || row.bytes < wire_bound_bytes) continue;
    const double wire = collective_terms(kind, algorithm, protocol, row.placement, row.bytes).traffic;
    all.push_back(std::min(1.0, wire / row.seconds));
  }
  return all;
}

// Seconds for a second of the line: 1 over the efficiency, and 1 where no row shows it.
double least_wire_coefficient(const std::vector<Row>& rows, CollectiveKind kind,
                              CollectiveAlgorithm algorithm, NcclProtocol protocol) {
  std::vector<double> efficiencies = wire_efficiencies(rows, kind, algorithm, protocol);
  return efficiencies.empty() ? 1 : 1 / upper_median(std::move(efficiencies));
}

// One rank count cannot tell latency from steps, nor copies of the whole from what is sent.
std::array<double, most_columns> columns_inside(const CollectiveTerms& terms, bool one_rank_count) {
  if (one_rank_count) return {1, terms.traffic, 0, 0};
  return {1, terms.steps, terms.bytes, terms.traffic};
}

// The steps of Simple go on while its chunks are under way; a message of LL waits for the one before.
double seconds_between(NcclProtocol protocol, double steps, double traffic) {
  return protocol == NcclProtocol::simple ? std::hypot(steps, traffic) : steps + traffic;
}
double steps_within(NcclProtocol protocol, double seconds, double traffic) {
  return protocol == NcclProtocol::simple ? std::sqrt(seconds * seconds - traffic * traffic)
                                          : seconds - traffic;
}

// Of the sizes that latency rules.
double seconds_of_step(const std::vector<Row>& rows, const std::vector<CollectiveTerms>& terms,
                       NcclProtocol protocol, double traffic_coefficient) {
  constexpr double most_traffic = 0.5;
  std::vector<double> all;
  double least = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double traffic = traffic_coefficient * terms[i].traffic;
    if (traffic >= rows[i].seconds) continue;
    const double step = steps_within(protocol, rows[i].seconds, traffic) / terms[i].steps;
    least = least > 0 ? std::min(least, step) : step;
    if (traffic <= most_traffic * rows[i].seconds) all.push_back(step);
  }
  return all.empty() ? least : upper_median(std::move(all));
}

}  // namespace

bool is_same_line_rate(double a, double b) {
  constexpr double same = 0.005;
  return std::abs(a / b - 1) < same;
}

double node_share(CollectiveKind kind, CollectiveAlgorithm algorithm, int ranks, int nodes) {
  if (algorithm == CollectiveAlgorithm::tree) return std::min(2.0, 0.5 * nodes);
  if (kind == CollectiveKind::all_to_all) {
    const double per_node = static_cast<double>(ranks) / nodes;
    return per_node * (ranks - per_node) / ranks;
  }
  return bus_factor(kind, ranks);
}

CollectiveTerms collective_terms(CollectiveKind kind, CollectiveAlgorithm algorithm, NcclProtocol protocol,
                                 const CollectivePlacement& placement, double bytes) {
  CollectiveTerms terms;
  terms.bytes = bytes;
  const int nodes = placement.nodes;
  if (nodes < 2) {
    terms.steps = algorithm == CollectiveAlgorithm::tree ? 2 * (placement.ranks - 1)
                                                         : ring_steps(kind, placement.ranks);
    terms.traffic = bytes * bus_factor(kind, placement.ranks);
    return terms;
  }
  terms.steps =
      algorithm == CollectiveAlgorithm::tree ? 2 * depth(binary_tree(nodes)) : ring_steps(kind, nodes);
  const double on_wire = bytes / wire_efficiency(protocol);
  terms.traffic = on_wire * node_share(kind, algorithm, placement.ranks, nodes) / placement.line_rate;
  if (placement.host_rate > 0) {
    const double host = on_wire * thread_share(kind, algorithm, placement) / placement.host_rate;
    terms.traffic = std::max(terms.traffic, host * transport_efficiency(placement.transport));
  }
  return terms;
}

double thread_share(CollectiveKind kind, CollectiveAlgorithm algorithm,
                    const CollectivePlacement& placement) {
  const double one_way = node_share(kind, algorithm, placement.ranks, placement.nodes);
  const int per_node = std::max(1, placement.ranks / std::max(1, placement.nodes)), nics = placement.nics;
  const bool is_chain = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
  if (kind == CollectiveKind::all_to_all) return 2 * one_way / per_node;
  if (algorithm == CollectiveAlgorithm::tree) return 2 * one_way / std::min(nics, per_node);
  // The ends of a chain only send or only receive.
  if (is_chain && placement.nodes == 2) return one_way / std::min(nics, per_node);
  return 2 * one_way / std::min(2 * nics, per_node);
}

CollectiveMeasurements::CollectiveMeasurements(const Profile* profile, NcclSystem system, bool is_cpu)
    : system_(system), is_cpu_(is_cpu) {
  if (profile == nullptr) return;
  inside_rate_ = inside_rate_of(*profile);
  for (const CollectiveEntry& entry : profile->collectives) {
    if (entry.nodes < 2 || !(entry.line_rate > 0)) continue;
    std::vector<double>& rates = rates_[transport_of(entry.network)];
    const auto same = [&entry](double rate) { return is_same_line_rate(rate, entry.line_rate); };
    if (std::none_of(rates.begin(), rates.end(), same)) rates.push_back(entry.line_rate);
  }
  for (auto& [transport, rates] : rates_) std::sort(rates.begin(), rates.end());
  std::map<decltype(curves_)::key_type, std::vector<const CollectiveEntry*>> grouped;
  for (const CollectiveEntry& entry : profile->collectives) {
    const std::string network = network_key(entry.network, entry.line_rate, entry.nodes);
    const std::string algorithm = lower(known_or(entry.algorithm, "auto"));
    // A protocol forced by hand is not what a job gets.
    if (algorithm == "auto" && known_or(entry.protocol, "auto") != "auto") continue;
    grouped[{entry.kind, entry.ranks, entry.nodes, network, algorithm, entry.element}].push_back(&entry);
  }
  for (const auto& [key, entries] : grouped) curves_.emplace(key, MeasuredCurve(entries));
  if (!is_cpu_) find_host_rates(*profile);
  add_fits(*profile);
}

NcclModel CollectiveMeasurements::model(int ranks, int nodes, int nics, Rate reported) const {
  NcclSystem system = system_;
  system.ranks = ranks;
  system.nodes = nodes;
  system.nics = std::max(1, nics);
  system.nic_gb_per_s = reported.bytes_per_second() * 1e-9;
  return NcclModel(system);
}

std::string CollectiveMeasurements::network_of(const CollectivePlacement& placement) const {
  if (placement.nodes > 1) return network_key(name_of(placement.transport), placement.line_rate, 2);
  return network_key(is_cpu_ ? "" : placement.network, 0, 1);
}

std::vector<CollectiveMeasurements::Neighbour> CollectiveMeasurements::measured_rates(
    const CollectivePlacement& placement) const {
  const auto found = rates_.find(placement.transport);
  if (placement.nodes < 2 || found == rates_.end()) return {};
  const std::vector<double>& rates = found->second;
  const double asked = placement.line_rate;
  for (const double rate : rates)
    if (is_same_line_rate(rate, asked)) return {{rate, 1}};
  const auto above = std::lower_bound(rates.begin(), rates.end(), asked);
  if (above == rates.begin()) return {{*above, 1}};
  if (above == rates.end()) return {{rates.back(), 1}};
  const double low = *(above - 1), high = *above;
  const double weight = std::log(asked / low) / std::log(high / low);
  return {{low, 1 - weight}, {high, weight}};
}

const CollectiveMeasurements::Fit* CollectiveMeasurements::fit_of(CollectiveKind kind,
                                                                  CollectiveAlgorithm algorithm,
                                                                  NcclProtocol protocol,
                                                                  CollectivePlacement placement,
                                                                  double line_rate) const {
  placement.line_rate = line_rate;
  const auto found = fits_.find({kind, algorithm, protocol, network_of(placement)});
  return found == fits_.end() ? nullptr : &found->second;
}

const MeasuredCurve* CollectiveMeasurements::curve(CollectiveKind kind, const CollectivePlacement& placement,
                                                   Precision element, const std::string& algorithm) const {
  const std::string network = network_of(placement);
  std::string asked = name_of(element);
  if (asked == "tf32") asked = "fp32";
  const MeasuredCurve* any = nullptr;
  for (const auto& [key, curve] : curves_) {
    const auto& [k, ranks, nodes, net, algo, entry_element] = key;
    if (k != name_of(kind) || ranks != placement.ranks || nodes != placement.nodes || net != network ||
        algo != algorithm || curve.empty()) {
      continue;
    }
    if (entry_element == asked) return &curve;
    if (any == nullptr) any = &curve;
  }
  return any;
}

void CollectiveMeasurements::find_host_rates(const Profile& profile) {
  struct Flow {
    double node_rate, thread_rate, of_line;  // bytes a second; payload over what the transport leaves
  };
  std::map<std::tuple<Transport, std::string>, std::map<double, std::vector<Flow>>> networks;
  for (const CollectiveEntry& entry : profile.collectives) {
    const auto kind = collective_kind(entry.kind);
    const bool is_large = entry.nodes > 1 && entry.line_rate > 0 && entry.time.median > 0 &&
                          static_cast<double>(entry.bytes) >= wire_bound_bytes;
    if (!kind || !is_large) continue;
    const auto algorithm = collective_algorithm(lower(known_or(entry.chosen_algorithm, entry.algorithm)));
    if (!algorithm || !has_algorithm(*kind, *algorithm)) continue;
    const CollectivePlacement placement = placement_of(entry);
    const double a_second = static_cast<double>(entry.bytes) / entry.time.median;
    const double node = node_share(*kind, *algorithm, placement.ranks, placement.nodes);
    const double thread = thread_share(*kind, *algorithm, placement);
    const double usable = placement.line_rate * transport_efficiency(placement.transport);
    networks[{placement.transport, network_key(entry.network, entry.line_rate, entry.nodes)}][thread / node]
        .push_back({a_second * node, a_second * thread, a_second * node / usable});
  }
  const auto middle = [](const std::vector<Flow>& flows, double Flow::*what) {
    std::vector<double> values;
    for (const Flow& flow : flows) values.push_back(flow.*what);
    return upper_median(std::move(values));
  };
  for (const auto& [key, by_work] : networks) {
    if (by_work.size() < 2) continue;
    const std::vector<Flow>&light = by_work.begin()->second, &heavy = by_work.rbegin()->second;
    if (light.size() < 3 || heavy.size() < 3 || middle(heavy, &Flow::of_line) >= near_line) continue;
    if (middle(light, &Flow::node_rate) < one_way_gain * middle(heavy, &Flow::node_rate)) continue;
    HostRate rate{middle(heavy, &Flow::thread_rate), 0};
    std::vector<double> deviations;
    for (const Flow& flow : heavy)
      deviations.push_back(std::abs(flow.thread_rate / rate.bytes_per_second - 1));
    rate.relative_uncertainty = half_width_of_median_deviation * upper_median(std::move(deviations));
    // Of several networks the fastest thread: a slower one had something else to wait for.
    HostRate& known = host_rates_[std::get<0>(key)];
    if (rate.bytes_per_second > known.bytes_per_second) known = rate;
  }
}

std::optional<CollectiveMeasurements::HostRate> CollectiveMeasurements::host_rate(Transport transport) const {
  const auto found = host_rates_.find(transport);
  if (found == host_rates_.end()) return std::nullopt;
  return found->second;
}

void CollectiveMeasurements::add_fits(const Profile& profile) {
  std::map<FitKey, std::vector<Row>> rows;
  for (const CollectiveEntry& entry : profile.collectives) {
    const auto kind = collective_kind(entry.kind);
    if (!kind || entry.ranks < 2 || entry.bytes <= 0 || !(entry.time.median > 0)) continue;
    if (entry.nodes > 1 && !(entry.line_rate > 0)) continue;
    CollectivePlacement placement = placement_of(entry);
    if (entry.nodes > 1)
      placement.host_rate = host_rate(placement.transport).value_or(HostRate{}).bytes_per_second;
    auto algorithm = collective_algorithm(lower(known_or(entry.chosen_algorithm, entry.algorithm)));
    auto protocol = nccl_protocol(known_or(entry.chosen_protocol, entry.protocol));
    const auto bytes = static_cast<double>(entry.bytes);
    if (is_cpu_) {
      algorithm = default_algorithm(*kind);
      protocol = NcclProtocol::simple;
    } else if (!algorithm || !has_algorithm(*kind, *algorithm) || !protocol) {
      const NcclChoice choice =
          model(entry.ranks, entry.nodes, 1, Rate(entry.line_rate)).choose(*kind, bytes, std::nullopt);
      if (!algorithm || !has_algorithm(*kind, *algorithm)) algorithm = choice.algorithm;
      if (!protocol) {
        protocol = model(entry.ranks, entry.nodes, 1, Rate(entry.line_rate))
                       .choose(*kind, bytes, algorithm)
                       .protocol;
      }
    }
    const std::string network = network_key(entry.network, entry.line_rate, entry.nodes);
    rows[{*kind, *algorithm, *protocol, network}].push_back({placement, bytes, entry.time.median});
  }
  std::map<Transport, std::vector<double>> efficiencies;
  for (const auto& [key, group] : rows) {
    const auto& [kind, algorithm, protocol, network] = key;
    std::set<int> rank_counts;
    std::set<double> sizes;
    for (const Row& row : group) {
      rank_counts.insert(row.placement.ranks);
      sizes.insert(row.bytes);
    }
    if (sizes.size() < 3) continue;
    Fit fit;
    fit.one_rank_count = rank_counts.size() < 2;
    fit.least_ranks = *rank_counts.begin();
    fit.most_ranks = *rank_counts.rbegin();
    fit.least_bytes = *sizes.begin();
    fit.most_bytes = *sizes.rbegin();
    const bool is_between = group.front().placement.nodes > 1;
    std::vector<CollectiveTerms> terms;
    for (const Row& row : group)
      terms.push_back(collective_terms(kind, algorithm, protocol, row.placement, row.bytes));
    if (is_between) {
      fit.traffic = least_wire_coefficient(group, kind, algorithm, protocol);
      fit.step = seconds_of_step(group, terms, protocol, fit.traffic);
    } else {
      std::vector<Observation> observations;
      for (std::size_t i = 0; i < group.size(); ++i)
        observations.push_back({columns_inside(terms[i], fit.one_rank_count), group[i].seconds});
      fit.line = fit_relative(observations);
    }
    double squares = 0, streamed_squares = 0;
    int streamed = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const double miss = fit.seconds(protocol, terms[i], is_between) / group[i].seconds - 1;
      squares += miss * miss;
      if (group[i].bytes < MeasuredCurve::streamed_bytes) continue;
      streamed_squares += miss * miss;
      ++streamed;
    }
    constexpr int enough = 5;
    fit.residual =
        is_between ? std::sqrt(squares / static_cast<double>(group.size())) : fit.line.relative_residual;
    fit.streamed_residual = streamed < enough ? fit.residual : std::sqrt(streamed_squares / streamed);
    fits_.emplace(key, fit);
    if (!is_between || protocol != NcclProtocol::simple) continue;
    for (double efficiency : wire_efficiencies(group, kind, algorithm, protocol)) {
      efficiencies[group.front().placement.transport].push_back(efficiency);
    }
  }
  for (auto& [transport, values] : efficiencies) efficiencies_[transport] = upper_median(std::move(values));
}

double CollectiveMeasurements::Fit::seconds(NcclProtocol protocol, const CollectiveTerms& terms,
                                            bool is_between) const {
  return is_between ? seconds_between(protocol, step * terms.steps, traffic * terms.traffic)
                    : line.at(columns_inside(terms, one_rank_count));
}

std::optional<FittedTime> CollectiveMeasurements::fitted(CollectiveKind kind, CollectiveAlgorithm algorithm,
                                                         NcclProtocol protocol,
                                                         const CollectivePlacement& placement,
                                                         double bytes) const {
  std::vector<Neighbour> rates = measured_rates(placement);
  const bool is_between = placement.nodes > 1;
  if (!is_between) rates = {{0, 1}};
  std::vector<std::pair<const Fit*, Neighbour>> fits;
  for (const Neighbour& each : rates) {
    const Fit* fit = fit_of(kind, algorithm, protocol, placement, each.line_rate);
    if (fit != nullptr) fits.emplace_back(fit, each);
  }
  if (fits.empty()) return std::nullopt;
  if (fits.size() == 1) fits.front().second.weight = 1;
  const CollectiveTerms terms = collective_terms(kind, algorithm, protocol, placement, bytes);
  FittedTime time;
  double logarithm = 0;
  for (const auto& [known, each] : fits) {
    const Fit& fit = *known;
    double seconds = fit.seconds(protocol, terms, is_between);
    if (fit.one_rank_count && !is_between && !is_cpu_) {  // further steps as NCCL counts them
      const NcclModel here = model(placement.ranks, 1, 1, Rate()),
                      there = model(fit.least_ranks, 1, 1, Rate());
      seconds += here.latency(kind, algorithm, protocol) - there.latency(kind, algorithm, protocol);
    }
    if (!(seconds > 0)) return std::nullopt;
    logarithm += each.weight * std::log(seconds);
    time.seconds = seconds;
    // Beyond the ranks measured each doubling adds 5 %; within a node a fit from one rank count misses up to
    // 15 % at large sizes (the bus bandwidth of two H200 is 298 GB/s, of four 340, of eight 365). A doubling
    // of the line rate adds 5 %.
    const double away = std::max({0.0, std::log2(placement.ranks / static_cast<double>(fit.most_ranks)),
                                  std::log2(fit.least_ranks / static_cast<double>(placement.ranks))});
    const double residual = bytes >= MeasuredCurve::streamed_bytes ? fit.streamed_residual : fit.residual;
    double doubt =
        std::max(0.03, 1.645 * residual) + away * (fit.one_rank_count && !is_between ? 0.15 : 0.05);
    if (is_between) doubt += 0.05 * std::abs(std::log2(placement.line_rate / each.line_rate));
    time.relative_uncertainty = std::max(time.relative_uncertainty, doubt);
    const std::string ranks = fit.one_rank_count ? fmt::format("{}", fit.least_ranks)
                                                 : fmt::format("{} to {}", fit.least_ranks, fit.most_ranks);
    if (!time.range.empty()) time.range += "; ";
    time.range +=
        fmt::format("{} ranks, {} to {}", ranks, format_bytes(fit.least_bytes), format_bytes(fit.most_bytes));
    if (is_between && !is_same_line_rate(each.line_rate, placement.line_rate))
      time.range += " at " + format_bit_rate(Rate(each.line_rate));
  }
  if (fits.size() > 1) time.seconds = std::exp(logarithm);
  return time;
}

std::optional<double> CollectiveMeasurements::step_latency(NcclProtocol protocol,
                                                           const CollectivePlacement& placement) const {
  double sum = 0, weights = 0;
  for (const Neighbour& each : measured_rates(placement)) {
    const Fit* fit =
        fit_of(CollectiveKind::all_reduce, CollectiveAlgorithm::ring, protocol, placement, each.line_rate);
    if (fit == nullptr || !(fit->step > 0)) continue;
    sum += each.weight * fit->step;
    weights += each.weight;
  }
  return weights > 0 ? std::optional(sum / weights) : std::nullopt;
}

std::optional<double> CollectiveMeasurements::network_efficiency(Transport transport) const {
  const auto found = efficiencies_.find(transport);
  if (found == efficiencies_.end()) return std::nullopt;
  return found->second;
}

}  // namespace foretrain

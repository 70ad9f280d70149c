#include "sim/network/link_loads.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace foretrain {
namespace {

double slowest(const std::vector<WireLoad>& wires, bool network, const WireFactors& factors) {
  double most = 0;
  for (const WireLoad& wire : wires) {
    if ((wire.kind == LinkKind::network) == network) most = std::max(most, wire.seconds_per_byte(factors));
  }
  return most;
}

}  // namespace

double WireLoad::seconds_per_byte(const WireFactors& factors) const {
  const double line = rate * (kind == LinkKind::network ? factors.network : factors.inside);
  constexpr double left = 0.01;  // of a slower link that others would fill (assumed)
  return share / (line > background ? line - background : left * line);
}

double LinkLoads::network_seconds_per_byte(const WireFactors& factors) const {
  return slowest(wires, true, factors);
}

double LinkLoads::inside_seconds_per_byte(const WireFactors& factors) const {
  return slowest(wires, false, factors);
}

double LinkLoads::seconds_per_byte(const WireFactors& factors) const {
  return std::max(network_seconds_per_byte(factors), inside_seconds_per_byte(factors));
}

namespace {

void add_share(const Topology& topology, int link, double share, std::vector<double>& shares) {
  const Link& crossed = topology.links[static_cast<std::size_t>(link)];
  shares[static_cast<std::size_t>(crossed.half_duplex ? std::min(link, crossed.reverse) : link)] += share;
}

Time add_transfers(const Topology& topology, Routes& routes, const RankGroup& group,
                   std::span<const Transfer> transfers, std::vector<double>& shares) {
  Time longest;
  for (const Transfer& transfer : transfers) {
    Time latency;
    for (int link : routes.way(group.workers[static_cast<std::size_t>(transfer.from)],
                               group.workers[static_cast<std::size_t>(transfer.to)])) {
      add_share(topology, link, transfer.share, shares);
      latency += topology.links[static_cast<std::size_t>(link)].latency;
    }
    longest = std::max(longest, latency);
  }
  return longest;
}

}  // namespace

std::vector<double> link_shares(const Topology& topology, Routes& routes, const RankGroup& group,
                                std::span<const Transfer> transfers) {
  std::vector<double> shares(topology.links.size());
  add_transfers(topology, routes, group, transfers, shares);
  return shares;
}

namespace {

// A load that varies from outcome to outcome.
struct Varying {
  double mean = 0, deviation = 0;
};

// What the largest of all stays below in half of all outcomes.
double median_of_largest(std::vector<Varying> loads) {
  constexpr double never = 8;  // deviations
  double low = 0, high = 0, widest = 0;
  for (const Varying& load : loads) low = std::max(low, load.mean);
  std::erase_if(loads, [&](const Varying& load) {
    return load.deviation == 0 || load.mean + never * load.deviation <= low;
  });
  for (const Varying& load : loads) {
    high = std::max(high, load.mean + never * load.deviation);
    widest = std::max(widest, load.deviation);
  }
  auto is_likely_above = [&](double level) {
    double logarithm = 0;  // of the probability that all are below
    for (const Varying& load : loads) {
      logarithm += std::log(0.5 * std::erfc((load.mean - level) / load.deviation / std::sqrt(2.0)));
    }
    return logarithm < std::log(0.5);
  };
  constexpr double fine = 1e-4;
  while (high - low > fine * widest) {
    const double middle = (low + high) / 2;
    (is_likely_above(middle) ? low : high) = middle;
  }
  return low;
}

// The busiest of links that are alike.
class Busiest {
 public:
  void add(double share, double variance) {
    largest_ = std::max(largest_, share);
    if (variance > 0) varying_.push_back({share, std::sqrt(variance)});
  }
  double share() const {
    if (varying_.empty()) return largest_;
    std::vector<Varying> all = varying_;
    all.push_back({largest_, 0});
    return median_of_largest(std::move(all));
  }

 private:
  double largest_ = 0;
  std::vector<Varying> varying_;
};

}  // namespace

LinkLoads link_loads(const Topology& topology, const RankGroup& group, std::span<const double> shares,
                     std::span<const double> variances, Time longest_latency) {
  LinkLoads loads;
  loads.longest_latency = longest_latency;
  std::vector<ClassLoad> by_class(topology.link_classes.size());
  std::vector<Busiest> of_class(topology.link_classes.size());
  std::map<std::tuple<LinkKind, double, double>, Busiest> wires;
  std::vector<double> from_worker(topology.vertices.size());
  for (std::size_t index = 0; index < shares.size(); ++index) {
    const double share = shares[index];
    if (share == 0) continue;
    const double variance = variances.empty() ? 0 : variances[index];
    const Link& link = topology.links[index];
    from_worker[static_cast<std::size_t>(link.from)] += share;
    ClassLoad& load = by_class[static_cast<std::size_t>(link.link_class)];
    load.kind = link.kind;
    ++load.used;
    of_class[static_cast<std::size_t>(link.link_class)].add(share, variance);
    wires[{link.kind, link.rate.bytes_per_second() * link.efficiency, link.background.bytes_per_second()}]
        .add(share, variance);
  }
  for (const int worker : group.workers) {
    loads.most_from_worker = std::max(loads.most_from_worker, from_worker[static_cast<std::size_t>(worker)]);
  }
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    if (by_class[c].used == 0) continue;
    by_class[c].link_class = topology.link_classes.name(static_cast<int>(c));
    by_class[c].share = of_class[c].share();
    loads.classes.push_back(std::move(by_class[c]));
  }
  std::sort(loads.classes.begin(), loads.classes.end(),
            [](const ClassLoad& a, const ClassLoad& b) { return a.link_class < b.link_class; });
  for (const auto& [wire, busiest] : wires) {
    const auto& [kind, rate, background] = wire;
    loads.wires.push_back({kind, rate, background, busiest.share()});
  }
  return loads;
}

LinkLoads link_loads(const Topology& topology, Routes& routes, const RankGroup& group,
                     std::span<const Transfer> transfers, std::span<const std::pair<int, double>> extra) {
  std::vector<double> shares(topology.links.size());
  for (const auto& [link, share] : extra) add_share(topology, link, share, shares);
  const Time longest = add_transfers(topology, routes, group, transfers, shares);
  return link_loads(topology, group, shares, {}, longest);
}

}  // namespace foretrain

#include "sim/network/link_loads.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace foretrain {

LinkLoads link_loads(const Topology& topology, Routes& routes, const RankGroup& group,
                     std::span<const Transfer> transfers, std::span<const std::pair<int, double>> extra) {
  LinkLoads loads;
  std::unordered_map<int, double> shares;
  auto add = [&](int link, double share) {
    const Link& crossed = topology.links[static_cast<std::size_t>(link)];
    shares[crossed.half_duplex ? std::min(link, crossed.reverse) : link] += share;
  };
  for (const auto& [link, share] : extra) add(link, share);
  for (const Transfer& transfer : transfers) {
    Time latency;
    for (int link : routes.between(group.workers[static_cast<std::size_t>(transfer.from)],
                                   group.workers[static_cast<std::size_t>(transfer.to)])) {
      add(link, transfer.share);
      latency += topology.links[static_cast<std::size_t>(link)].latency;
    }
    loads.longest_latency = std::max(loads.longest_latency, latency);
  }
  std::map<std::string_view, ClassLoad> classes;
  for (const auto& [index, share] : shares) {
    const Link& link = topology.links[static_cast<std::size_t>(index)];
    const double seconds = share / link.payload_rate();
    ClassLoad& load = classes[link.link_class];
    load.link_class = link.link_class;
    load.kind = link.kind;
    ++load.used;
    load.share = std::max(load.share, share);
    load.seconds_per_byte = std::max(load.seconds_per_byte, seconds);
    double& slowest =
        link.kind == LinkKind::network ? loads.network_seconds_per_byte : loads.inside_seconds_per_byte;
    slowest = std::max(slowest, seconds);
  }
  for (auto& [name, load] : classes) loads.classes.push_back(std::move(load));
  return loads;
}

}  // namespace foretrain

#include "sim/import/traced_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/base/quantile.hpp"
#include "sim/import/node_graph.hpp"

namespace foretrain {

std::vector<CollectiveEntry> traced_collectives(const TraceCollection& trace, const TraceHead& head,
                                                const ImportOptions& options,
                                                std::vector<std::string>& notes) {
  std::map<std::tuple<std::string, int, std::string, std::int64_t>, std::vector<double>> times;
  for (const DeviceActivity& each : trace.device) {
    if (each.collective < 0) continue;
    const TraceCollective& collective = trace.collectives[static_cast<std::size_t>(each.collective)];
    const int ranks = collective.ranks > 0 ? collective.ranks : head.world_size;
    constexpr double most_bytes = 1e15;
    if (collective.kind.empty() || collective.bytes <= 0 || collective.bytes > most_bytes || ranks < 2)
      continue;
    times[{collective.kind, ranks, collective.element, static_cast<std::int64_t>(collective.bytes)}]
        .push_back(each.duration * 1e-6);
  }
  std::vector<CollectiveEntry> out;
  int without_network = 0;
  for (const auto& [key, all] : times) {
    CollectiveEntry entry;
    std::tie(entry.kind, entry.ranks, entry.element, entry.bytes) = key;
    entry.network = "nvlink";
    if (head.gpus > 0 && entry.ranks > head.gpus) {
      if (options.network.empty()) {
        without_network += static_cast<int>(all.size());
        continue;
      }
      const NetworkDescription network = read_network_text(options.network, Transport::tcp);
      entry.network = network.name();
      entry.line_rate = network.bandwidth.bytes_per_second();
      entry.nodes = (entry.ranks + head.gpus - 1) / head.gpus;
    }
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    if (!(*low > 0)) continue;
    entry.algorithm = entry.protocol = "auto";
    entry.time = {*low, *low, median(all), *high - *low, static_cast<int>(all.size())};
    out.push_back(std::move(entry));
  }
  if (without_network > 0)
    notes.push_back(fmt::format(
        "{} collectives are of more ranks than the {} GPUs of the trace's host, and a trace does not "
        "say how fast their network is: left out; add --network '100 Gbit/s rdma' (line rate of a "
        "node, tcp or rdma)",
        without_network, head.gpus));
  return out;
}

}  // namespace foretrain

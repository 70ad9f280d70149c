#include "sim/import/trace_overlap.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace foretrain {

TraceOverlap::TraceOverlap(const TraceCollection& trace) {
  std::map<std::tuple<std::string, int, double>, double> shortest;
  const auto of_its_kind = [&](const TraceCollective& each) -> double& {
    return shortest.try_emplace({each.kind, each.ranks, each.bytes}, std::numeric_limits<double>::infinity())
        .first->second;
  };
  for (const DeviceActivity& each : trace.device) {
    if (each.collective >= 0) {
      double& least = of_its_kind(trace.collectives[static_cast<std::size_t>(each.collective)]);
      least = std::min(least, each.duration);
    } else if (!kernels_.empty() && each.start <= kernels_.back().second) {
      kernels_.back().second = std::max(kernels_.back().second, each.end());
    } else {
      kernels_.emplace_back(each.start, each.end());
    }
  }
  for (const TraceCollective& each : trace.collectives) shortest_.push_back(of_its_kind(each));
}

double TraceOverlap::exposed(const DeviceActivity& collective) const {
  const double own =
      std::min(collective.duration, shortest_[static_cast<std::size_t>(collective.collective)]);
  return own - beside_kernels(collective.end() - own, collective.end());
}

double TraceOverlap::beside_kernels(double begin, double end) const {
  auto kernel = std::lower_bound(kernels_.begin(), kernels_.end(), begin,
                                 [](const auto& each, double time) { return each.second < time; });
  double sum = 0;
  for (; kernel != kernels_.end() && kernel->first < end; ++kernel)
    sum += std::max(0.0, std::min(kernel->second, end) - std::max(kernel->first, begin));
  return sum;
}

}  // namespace foretrain

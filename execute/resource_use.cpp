#include "execute/resource_use.hpp"

#include <algorithm>
#include <map>

#include "sim/base/quantile.hpp"

namespace foretrain {
namespace {

std::size_t samples_of(const MonitorSeries& series) {
  return std::min(series.time.size(), series.value.size());
}

bool is_checkpoint(const RunEvent& event) {
  return event.what == "checkpoint" || event.what == "checkpoint write";
}

}  // namespace

std::vector<ResourceUse> resource_use(const RunRecord& record) {
  std::map<int, ResourceUse> nodes;
  for (const MonitorSeries& series : record.monitor) {
    const bool is_sent = series.what == "network_sent";
    if (series.what != "cpu" && series.what != "resident" && !is_sent) continue;
    double sum = 0, most = 0, carried = 0;
    int count = 0;
    for (std::size_t i = 0; i < samples_of(series); ++i) {
      if (series.time[i] < 0) continue;
      sum += series.value[i];
      most = std::max(most, series.value[i]);
      ++count;
      // A rate is that since the sample before; what was sent before the first counted step is none of it.
      if (i > 0) carried += series.value[i] * (series.time[i] - std::max(0.0, series.time[i - 1]));
    }
    if (count == 0) continue;
    ResourceUse& use = nodes[series.node];
    use.node = series.node;
    if (series.what == "cpu") use.cores = sum / count;
    if (is_sent) use.sent = carried;
    if (series.what != "resident") continue;
    use.resident_mean = sum / count;
    use.resident_peak = most;
  }
  std::vector<ResourceUse> out;
  for (const auto& [node, use] : nodes)
    if (use.cores > 0 || use.resident_peak > 0) out.push_back(use);
  return out;
}

std::optional<double> checkpoint_memory(const RunRecord& record) {
  // Samples count from the first counted step, events from the start of the run, which start-up takes.
  double startup = 0, first = -1;
  for (const RunEvent& event : record.events)
    if (event.what == "startup") startup = event.end;
  for (const RunEvent& event : record.events)
    if (is_checkpoint(event) && (first < 0 || event.begin < first)) first = event.begin;
  if (first < 0) return std::nullopt;
  std::optional<double> most;
  for (const MonitorSeries& series : record.monitor) {
    if (series.what != "resident") continue;
    std::vector<double> before;
    double highest = 0;
    for (std::size_t i = 0; i < samples_of(series); ++i) {
      const double time = series.time[i] + startup;
      if (time >= startup && time < first) before.push_back(series.value[i]);
      const bool is_within =
          std::any_of(record.events.begin(), record.events.end(), [time](const RunEvent& event) {
            return is_checkpoint(event) && event.begin <= time && time <= event.end;
          });
      if (is_within) highest = std::max(highest, series.value[i]);
    }
    if (before.empty() || highest == 0) continue;
    most = std::max(most.value_or(0), highest - median(before));
  }
  return most;
}

}  // namespace foretrain

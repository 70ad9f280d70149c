#include "execute/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "execute/resource_use.hpp"
#include "sim/base/quantile.hpp"

namespace foretrain {
namespace {

// The mean rank's median over the steps that were timed.
std::optional<double> median_part(const RunRecord& record, std::vector<double> RankRecord::*part) {
  double sum = 0;
  int count = 0;
  for (const RankRecord& rank : record.ranks) {
    if ((rank.*part).empty()) continue;
    sum += median(rank.*part);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

struct ShownSeries {
  const char *what, *title, *unit;
  double scale;
};
constexpr ShownSeries shown[] = {{"gpu_use", "GPU use", "%", 100},
                                 {"gpu_memory", "GPU memory", "GB", 1e-9},
                                 {"network_sent", "Network, sent", "MB/s", 1e-6},
                                 {"network_received", "Network, received", "MB/s", 1e-6},
                                 {"cpu", "Processor", "cores", 1},
                                 {"resident", "Memory of the processes", "GB", 1e-9}};

// Bytes a second that a node sends over the network while steps run, by the links that are none of a node's
// own.
double predicted_traffic(const Result& predicted) {
  double most = 0;
  for (const LinkUse& link : predicted.links) {
    const bool is_inside = link.name.find("nvlink") != std::string::npos ||
                           link.name.find("pcie") != std::string::npos ||
                           link.name.find("shared memory") != std::string::npos;
    if (!is_inside) most = std::max(most, link.bytes_per_step);
  }
  return predicted.step.time > 0 ? most / predicted.step.time : 0;
}

void add_predicted(const RunRecord& record, const Result& predicted, const std::string& what,
                   const std::string& of_what, SampledChart& chart, double scale) {
  if (what == "gpu_use") {
    chart.predicted.emplace_back("predicted" + of_what + ": a kernel or collective runs",
                                 scale * predicted.gpu.busy);
  } else if (what == "gpu_memory" && predicted.memory.peak > 0) {
    chart.predicted.emplace_back("predicted peak" + of_what, scale * predicted.memory.peak);
  } else if ((what == "network_sent" || what == "network_received") && record.nodes > 1) {
    chart.predicted.emplace_back("predicted" + of_what + " while steps run",
                                 scale * predicted_traffic(predicted));
  }
}

// The slowest rank of each counted step.
std::vector<std::pair<double, double>> steps_of(const RunRecord& record) {
  std::vector<std::pair<double, double>> out;
  double time = 0;
  const std::size_t count = record.ranks.empty() ? 0 : record.ranks.front().step.size();
  for (std::size_t i = 0; i < count; ++i) {
    double slowest = 0;
    for (const RankRecord& rank : record.ranks)
      if (i < rank.step.size()) slowest = std::max(slowest, rank.step[i]);
    time += slowest;
    out.emplace_back(time, 1e3 * slowest);
  }
  return out;
}

}  // namespace

MeasuredRun measured_run(const RunRecord& record, const Result* predicted) {
  MeasuredRun run;
  run.name = record.scenario_name;
  const MeasuredStep step = measured_step(record);
  const auto part = [&](const char* name, std::optional<double> measured, std::optional<double> expected) {
    if (measured || expected) run.parts.push_back({name, measured, expected});
  };
  const auto of = [&](double Breakdown::*member) {
    return predicted == nullptr ? std::nullopt : std::optional(predicted->step.breakdown.*member);
  };
  part("step", step.steps > 0 ? std::optional(step.median) : std::nullopt,
       predicted == nullptr ? std::nullopt : std::optional(predicted->step.time));
  // Of a job, whose phases differ, the parts of the first are not told apart from those of the others.
  const bool has_phases = std::count_if(record.events.begin(), record.events.end(),
                                        [](const RunEvent& event) { return event.what == "phase"; }) > 1;
  const std::string of_what = has_phases ? " of the first phase" : "";
  if (!has_phases) {
    part("exposed communication", median_part(record, &RankRecord::exposed_communication),
         of(&Breakdown::exposed_communication));
    part("optimizer", median_part(record, &RankRecord::optimizer), of(&Breakdown::optimizer));
  }
  for (const ResourceUse& use : resource_use(record))
    run.uses.push_back(
        {fmt::format("node {}", use.node), use.cores, use.resident_mean, use.resident_peak, use.sent});
  run.checkpoint_memory = checkpoint_memory(record);
  SampledChart steps{"Steps", "ms", {}, {}};
  steps.lines.push_back({"measured, slowest rank", steps_of(record)});
  if (predicted != nullptr) {
    steps.predicted.emplace_back("predicted" + of_what + ": from", 1e3 * predicted->step.low);
    steps.predicted.emplace_back("to (90 %)", 1e3 * predicted->step.high);
  }
  if (steps.lines.front().points.size() > 1) run.charts.push_back(std::move(steps));
  for (const ShownSeries& each : shown) {
    SampledChart chart{each.title, each.unit, {}, {}};
    for (const MonitorSeries& series : record.monitor) {
      constexpr std::size_t most_lines = 4;
      if (series.what != each.what || chart.lines.size() == most_lines) continue;
      SampledChart::Line line;
      line.label = series.device >= 0 ? fmt::format("node {} device {}", series.node, series.device)
                                      : fmt::format("node {}", series.node);
      for (std::size_t i = 0; i < std::min(series.time.size(), series.value.size()); ++i)
        if (series.time[i] >= 0) line.points.emplace_back(series.time[i], each.scale * series.value[i]);
      const bool is_silent = std::all_of(line.points.begin(), line.points.end(),
                                         [](const auto& point) { return point.second == 0; });
      if (line.points.size() > 1 && !is_silent) chart.lines.push_back(std::move(line));
    }
    if (chart.lines.empty()) continue;
    if (predicted != nullptr) add_predicted(record, *predicted, each.what, of_what, chart, each.scale);
    run.charts.push_back(std::move(chart));
  }
  return run;
}

std::optional<MeasuredRow> measured_row(const RunRecord& record) {
  const MeasuredStep step = measured_step(record);
  if (!record.prediction || step.steps == 0 || step.median <= 0) return std::nullopt;
  const PredictionBefore& before = *record.prediction;
  return MeasuredRow{record.scenario_name, step.median, before.step,
                     before.low,           before.high, before.distance.empty()};
}

}  // namespace foretrain

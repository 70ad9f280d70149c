#include "execute/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/quantile.hpp"

namespace foretrain {
namespace {

constexpr double relative_limit = 0.2, robust_limit = 5;
constexpr std::size_t fewest_steps = 8, fewest_samples = 20, most_findings = 100;

// Steps as long as on their slowest rank.
std::vector<double> slowest_steps(const RunRecord& record) {
  std::vector<double> steps;
  for (const RankRecord& rank : record.ranks) {
    if (steps.size() < rank.step.size()) steps.resize(rank.step.size());
    for (std::size_t i = 0; i < rank.step.size(); ++i) steps[i] = std::max(steps[i], rank.step[i]);
  }
  return steps;
}

// The job's updates after which something else ran; the step after it begins with an empty queue.
std::string cause_of(const RunRecord& record, std::int64_t step, std::int64_t first_update,
                     const std::vector<std::int64_t>& late_batches,
                     const std::vector<std::int64_t>& short_batches) {
  if (std::binary_search(short_batches.begin(), short_batches.end(), step)) return "short batch";
  for (const RunEvent& event : record.events) {
    const bool between = event.what == "evaluation" || event.what == "checkpoint" ||
                         event.what == "rescale" || event.what == "adaptation";
    if (between && event.step == first_update + step) return event.what;
  }
  if (std::find(late_batches.begin(), late_batches.end(), step) != late_batches.end()) return "batch load";
  return step == 0 ? "first step" : "";
}

struct Slope {
  double rise = 0;  // per second
  double standard_error = 0;
  double level = 0, span = 0;
};

Slope slope_of(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += std::pow(x[i] - mean_x, 2);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  Slope slope;
  slope.level = mean_y;
  slope.span = x.back() - x.front();
  if (xx <= 0) return slope;
  slope.rise = xy / xx;
  double rest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    rest += std::pow(y[i] - mean_y - slope.rise * (x[i] - mean_x), 2);
  }
  slope.standard_error = std::sqrt(rest / (n - 2) / xx);
  return slope;
}

}  // namespace

std::vector<MonitorFinding> step_findings(const RunRecord& record,
                                          const std::vector<std::int64_t>& late_batches,
                                          const std::vector<std::int64_t>& short_batches) {
  std::vector<MonitorFinding> findings;
  const std::vector<double> steps = slowest_steps(record);
  if (steps.size() < fewest_steps) return findings;
  const double middle = median(steps);
  std::vector<double> distances;
  for (double step : steps) distances.push_back(std::abs(step - middle));
  const double deviation = sigma_of_median_deviation * median(distances);
  std::int64_t first_update = 0;
  bool has_phase = false;
  for (const RunEvent& event : record.events) {
    if (event.what != "phase" || has_phase) continue;
    has_phase = true;
    first_update = event.step;
  }
  double time = 0;
  for (std::size_t i = 0; i < steps.size() && findings.size() < most_findings; ++i) {
    const double away = steps[i] - middle;
    if (std::abs(away) > relative_limit * middle && std::abs(away) > robust_limit * deviation) {
      MonitorFinding finding;
      finding.time = time;
      finding.what = away > 0 ? "spike" : "dip";
      finding.cause =
          cause_of(record, static_cast<std::int64_t>(i), first_update, late_batches, short_batches);
      finding.text = fmt::format("step {} took {:.3g} ms, {:+.0f} % of the median", i, steps[i] * 1e3,
                                 100 * away / middle);
      findings.push_back(std::move(finding));
    }
    time += steps[i];
  }
  return findings;
}

std::vector<MonitorFinding> leak_findings(const std::vector<MonitorSeries>& monitor) {
  std::vector<MonitorFinding> findings;
  for (const MonitorSeries& series : monitor) {
    if (series.unit != "bytes") continue;
    std::vector<double> time, value;
    for (std::size_t i = 0; i < series.time.size(); ++i) {
      if (series.time[i] < 0) continue;
      time.push_back(series.time[i]);
      value.push_back(series.value[i]);
    }
    if (time.size() < fewest_samples) continue;
    const Slope slope = slope_of(time, value);
    const double rise = slope.rise * slope.span;
    if (slope.rise <= 4 * slope.standard_error || rise < 0.01 * slope.level || rise < 16.0 * (1 << 20)) {
      continue;
    }
    findings.push_back({time.front(), "leak", "",
                        fmt::format("{}{} grew by {:.1f} MB in {:.1f} s, {:.3g} MB/s", series.what,
                                    series.device >= 0 ? fmt::format(" of device {}", series.device) : "",
                                    rise / 1e6, slope.span, slope.rise / 1e6)});
  }
  return findings;
}

}  // namespace foretrain

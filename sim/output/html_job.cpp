#include "sim/output/html_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/parse_units.hpp"
#include "sim/output/console_parts.hpp"
#include "sim/output/svg_chart.hpp"

namespace foretrain {
namespace {

using Points = std::vector<std::pair<double, double>>;
using Get = std::function<double(const JobPoint&)>;

Points progress_of(const JobPrediction& job, const Get& x, const Get& y) {
  Points points;
  for (const JobPoint& point : job.progress) points.emplace_back(x(point), y(point));
  return points;
}

// By epochs, from phase to phase: between two points of the progress a phase may begin and end.
Points steps_of(const JobPrediction& job, double (*value)(const JobPhase&)) {
  Points points;
  double epoch = 0;
  for (const JobPhase& phase : job.phases) {
    points.emplace_back(epoch, value(phase));
    points.emplace_back(epoch += phase.epochs, value(phase));
  }
  return points;
}

// Empty where it would show one and the same value throughout.
std::string chart_of(std::span<const Result> results, const char* title, const char* x_title,
                     const char* y_title, const std::function<Points(const JobPrediction&)>& points_of) {
  constexpr std::size_t most_lines = 6;
  LineChart chart;
  chart.title = title;
  chart.x_title = x_title;
  chart.y_title = y_title;
  chart.linear = true;
  std::set<double> values;
  for (const Result& result : results) {
    if (!result.job || chart.series.size() >= most_lines) continue;
    LineChart::Series series{result.scenario, points_of(*result.job), false};
    if (series.points.size() < 2) continue;
    for (const auto& [x, y] : series.points) values.insert(y);
    chart.series.push_back(std::move(series));
  }
  return values.size() < 2 ? "" : fmt::format("<h2>{}</h2>\n", title) + svg_of(chart);
}

std::string cell(const std::string& text, bool is_number) {
  return fmt::format("<td{}>{}</td>", is_number ? " class=\"n\"" : "", escaped_html(text));
}

std::string table_of(std::span<const Result> results) {
  std::string rows, assumption;
  std::size_t count = 0;
  for (const Result& result : results) {
    if (!result.job) continue;
    const JobPrediction& job = *result.job;
    ++count;
    rows += "<tr>" + cell(result.scenario, false) + cell(console::whole(job.updates), true) +
            cell(format_time(job.time), true) +
            cell(format_time(job.low) + " to " + format_time(job.high), true) +
            cell(console::grouped(job.gpu_hours), true) +
            cell(job.cost ? fmt::format("{:.2f} {}", *job.cost, job.currency) : "", true) +
            cell(job.speedup ? fmt::format("{:.2f}", job.speedup->time) : "", true) + "</tr>\n";
    if (assumption.empty()) assumption = job.assumption;
  }
  if (rows.empty()) return "";
  return "<h2>Jobs</h2>\n" +
         scrolled_table(
             "jobs",
             "<th>scenario</th><th class=\"n\">updates</th><th class=\"n\">time</th><th class=\"n\">90 % "
             "interval</th><th class=\"n\">GPU-hours</th><th class=\"n\">cost</th><th "
             "class=\"n\">speedup</th>",
             rows, count) +
         (assumption.empty() ? "" : "<p class=\"note\">assumed: " + escaped_html(assumption) + "</p>\n");
}

}  // namespace

std::string html_jobs(std::span<const Result> results) {
  const std::string table = table_of(results);
  if (table.empty()) return "";
  const auto epochs = [](const JobPoint& point) { return point.epochs; };
  const auto hours = [](const JobPoint& point) { return point.time / 3600; };
  const auto batches = [](const JobPrediction& job) {
    return steps_of(job, [](const JobPhase& phase) { return static_cast<double>(phase.batch); });
  };
  const auto rates = [&](const JobPrediction& job) {
    const bool is_stepwise = std::all_of(job.phases.begin(), job.phases.end(), [](const JobPhase& phase) {
      return phase.learning_rate == phase.learning_rate_end;
    });
    return is_stepwise ? steps_of(job, [](const JobPhase& phase) { return phase.learning_rate; })
                       : progress_of(job, epochs, [](const JobPoint& point) { return point.learning_rate; });
  };
  const auto values_over = [](const Get& x) {
    return [x](const JobPrediction& job) {
      const bool has_values = std::all_of(job.progress.begin(), job.progress.end(),
                                          [](const JobPoint& point) { return point.value.has_value(); });
      return has_values ? progress_of(job, x, [](const JobPoint& point) { return *point.value; }) : Points();
    };
  };
  return table + chart_of(results, "Batch", "epochs", "samples", batches) +
         chart_of(results, "Learning rate", "epochs", "", rates) +
         chart_of(results, "Convergence an epoch", "epochs", "", values_over(epochs)) +
         chart_of(results, "Convergence an hour", "hours", "", values_over(hours));
}

}  // namespace foretrain

#include "sim/output/html_job.hpp"

#include <fmt/format.h>

#include <functional>

#include "sim/base/parse_units.hpp"
#include "sim/output/console_parts.hpp"
#include "sim/output/svg_chart.hpp"

namespace foretrain {
namespace {

using Get = std::function<double(const JobPoint&)>;

std::string chart_of(std::span<const Result> results, const char* title, const char* x_title,
                     const char* y_title, const Get& x, const Get& y, bool wants_value) {
  constexpr std::size_t most_lines = 6;
  LineChart chart;
  chart.title = title;
  chart.x_title = x_title;
  chart.y_title = y_title;
  chart.linear = true;
  for (const Result& result : results) {
    if (!result.job || chart.series.size() >= most_lines) continue;
    LineChart::Series series{result.scenario, {}, false};
    for (const JobPoint& point : result.job->progress) {
      if (!wants_value || point.value) series.points.emplace_back(x(point), y(point));
    }
    if (series.points.size() > 1) chart.series.push_back(std::move(series));
  }
  return chart.series.empty() ? "" : fmt::format("<h2>{}</h2>\n", title) + svg_of(chart);
}

std::string cell(const std::string& text, bool is_number) {
  return fmt::format("<td{}>{}</td>", is_number ? " class=\"n\"" : "", escaped_html(text));
}

std::string table_of(std::span<const Result> results) {
  std::string rows, assumption;
  for (const Result& result : results) {
    if (!result.job) continue;
    const JobPrediction& job = *result.job;
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
             rows) +
         (assumption.empty() ? "" : "<p class=\"note\">assumed: " + escaped_html(assumption) + "</p>\n");
}

}  // namespace

std::string html_jobs(std::span<const Result> results) {
  const std::string table = table_of(results);
  if (table.empty()) return "";
  auto epochs = [](const JobPoint& point) { return point.epochs; };
  auto hours = [](const JobPoint& point) { return point.time / 3600; };
  auto value = [](const JobPoint& point) { return point.value.value_or(0); };
  return table +
         chart_of(
             results, "Batch", "epochs", "samples", epochs,
             [](const JobPoint& point) { return static_cast<double>(point.batch); }, false) +
         chart_of(
             results, "Learning rate", "epochs", "", epochs,
             [](const JobPoint& point) { return point.learning_rate; }, false) +
         chart_of(results, "Convergence an epoch", "epochs", "", epochs, value, true) +
         chart_of(results, "Convergence an hour", "hours", "", hours, value, true);
}

}  // namespace foretrain

#include "sim/output/html_measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/parse_units.hpp"
#include "sim/output/svg_chart.hpp"

namespace foretrain {
namespace {

std::string cell(const std::string& text, bool is_number = false) {
  return fmt::format("<td{}>{}</td>", is_number ? " class=\"n\"" : "", escaped_html(text));
}

double error_of(const MeasuredRow& row) {
  return row.predicted / row.measured - 1;
}

// At most so many points, each the mean of its neighbours.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points) {
  constexpr std::size_t most = 160;
  if (points.size() <= most) return points;
  std::vector<std::pair<double, double>> out;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
    double x = 0, y = 0;
    for (std::size_t k = begin; k < end; ++k) {
      x += points[k].first;
      y += points[k].second;
    }
    const auto count = static_cast<double>(end - begin);
    out.emplace_back(x / count, y / count);
  }
  return out;
}

std::string svg_of_sampled(const SampledChart& sampled) {
  LineChart chart;
  chart.title = sampled.title;
  chart.x_title = "seconds";
  chart.y_title = sampled.unit;
  chart.linear = true;
  double first = 0, last = 0;
  for (const auto& line : sampled.lines) {
    LineChart::Series series{line.label, thinned(line.points), false};
    if (series.points.empty()) continue;
    first = std::min(first, series.points.front().first);
    last = std::max(last, series.points.back().first);
    chart.series.push_back(std::move(series));
  }
  if (chart.series.empty()) return "";
  for (const auto& [label, level] : sampled.predicted)
    chart.series.push_back({label, {{std::max(0.0, first), level}, {last, level}}, true});
  return "<h3>" + escaped_html(sampled.title) + "</h3>\n" + svg_of(chart);
}

}  // namespace

std::string html_scatter(std::span<const MeasuredRow> rows) {
  if (rows.empty()) return "";
  ScatterChart chart;
  chart.title = "Predicted against measured steps";
  double most = 0;
  for (const MeasuredRow& row : rows) most = std::max({most, row.measured, row.predicted});
  const TimeUnit unit = time_unit(most);
  chart.x_title = std::string("measured, ") + unit.name;
  chart.y_title = std::string("predicted, ") + unit.name;
  constexpr double bound = 0.05;
  chart.bounds = {1 - bound, 1 + bound};
  chart.labels = {"calibration had seen it", "it had not seen all of it"};
  double sum = 0;
  std::size_t hits = 0, with_interval = 0;
  std::vector<const MeasuredRow*> worst;
  for (const MeasuredRow& row : rows) {
    chart.points.push_back(
        {unit.per_second * row.measured, unit.per_second * row.predicted, unit.per_second * row.low,
         unit.per_second * row.high, row.in_sample ? 0 : 1,
         fmt::format("{}: measured {}, predicted {}, {:+.1f} %", row.name, format_time(row.measured),
                     format_time(row.predicted), 100 * error_of(row))});
    sum += std::fabs(error_of(row));
    if (row.high > row.low) {
      ++with_interval;
      hits += row.low <= row.measured && row.measured <= row.high ? 1 : 0;
    }
    worst.push_back(&row);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const MeasuredRow* a, const MeasuredRow* b) {
    return std::fabs(error_of(*a)) > std::fabs(error_of(*b));
  });
  std::string table;
  constexpr std::size_t most_rows = 50;
  for (std::size_t i = 0; i < std::min(most_rows, worst.size()); ++i) {
    const MeasuredRow& row = *worst[i];
    table += "<tr>" + cell(row.name) + cell(format_time(row.measured), true) +
             cell(format_time(row.predicted), true) +
             cell(row.high > row.low ? format_time(row.low) + " to " + format_time(row.high) : "", true) +
             cell(fmt::format("{:+.1f} %", 100 * error_of(row)), true) + "</tr>\n";
  }
  std::string text = fmt::format("{} row{}: {:.1f} % off on average, {:.1f} % at most", rows.size(),
                                 rows.size() == 1 ? "" : "s", 100 * sum / static_cast<double>(rows.size()),
                                 100 * std::fabs(error_of(*worst.front())));
  if (with_interval > 0) text += fmt::format("; the 90 % interval holds {} of {}", hits, with_interval);
  return "<h2>Predicted against measured</h2>\n<p>" + text + ".</p>\n" + svg_of(chart) +
         numbers_table(
             chart.title,
             "<th>row, worst first</th><th class=\"n\">measured</th><th class=\"n\">predicted</th><th "
             "class=\"n\">90 % interval</th><th class=\"n\">error</th>",
             table) +
         "<p class=\"note\">On the line predicted and measured agree; the two beside it are 5 % off. The "
         "line "
         "through a point is its 90 % interval.</p>\n";
}

std::string html_run(const MeasuredRun& run) {
  std::string out = "<h2>Measured: " + escaped_html(run.name) + "</h2>\n", rows;
  for (const MeasuredRun::Part& part : run.parts) {
    const auto text = [](const std::optional<double>& seconds) {
      return seconds ? format_time(*seconds) : std::string();
    };
    const bool compares = part.measured && part.predicted && *part.measured > 0;
    rows +=
        "<tr>" + cell(part.name) + cell(text(part.measured), true) + cell(text(part.predicted), true) +
        cell(compares ? fmt::format("{:+.1f} %", 100 * (*part.predicted / *part.measured - 1)) : "", true) +
        "</tr>\n";
  }
  if (!rows.empty()) {
    out += scrolled_table(run.name + ": parts of a step",
                          "<th>of a step</th><th class=\"n\">measured</th><th class=\"n\">predicted</th><th "
                          "class=\"n\">error</th>",
                          rows);
  }
  std::string uses;
  for (const MeasuredRun::Use& use : run.uses) {
    uses += "<tr>" + cell(use.node) + cell(fmt::format("{:.0f} %", 100 * use.cores), true) +
            cell(format_bytes(use.resident_mean), true) + cell(format_bytes(use.resident_peak), true) +
            cell(format_bytes(use.sent), true) + "</tr>\n";
  }
  if (!uses.empty()) {
    out += scrolled_table(run.name + ": use of the nodes",
                          "<th>processes of</th><th class=\"n\">mean CPU (100 %: a core)</th><th "
                          "class=\"n\">resident memory, mean</th><th class=\"n\">peak</th><th "
                          "class=\"n\">sent over the run</th>",
                          uses);
  }
  if (run.checkpoint_memory) {
    out += "<p>While checkpoints are written resident memory is up to " +
           escaped_html(format_bytes(*run.checkpoint_memory)) + " above its median before them.</p>\n";
  }
  for (const SampledChart& chart : run.charts) out += svg_of_sampled(chart);
  return out;
}

std::string html_collectives(std::span<const CollectiveComparison> all) {
  std::string out;
  for (const CollectiveComparison& comparison : all) {
    LineChart chart;
    chart.title = comparison.title;
    chart.x_title = "size";
    chart.x_is_bytes = true;
    chart.y_title = "GB/s of bus bandwidth";
    for (const auto& line : comparison.lines) {
      LineChart::Series series{line.label, {}, !line.measured};
      for (const auto& [bytes, rate] : line.points) series.points.emplace_back(bytes, 1e-9 * rate);
      for (const auto& [low, high] : line.intervals) series.intervals.emplace_back(1e-9 * low, 1e-9 * high);
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    if (chart.series.empty()) continue;
    out += "<h3>" + escaped_html(comparison.title) + "</h3>\n" + svg_of(chart);
  }
  return out.empty() ? "" : "<h2>Collectives, measured and modelled</h2>\n" + out;
}

}  // namespace foretrain

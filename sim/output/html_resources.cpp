#include "sim/output/html_resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "sim/base/parse_units.hpp"
#include "sim/output/console_parts.hpp"
#include "sim/output/svg_chart.hpp"

namespace foretrain {
namespace {

constexpr std::size_t most_bars = most_shown_results;
constexpr std::size_t most_lines = 6;

bool is_bandwidth(const std::string& path) {
  return path == "cluster.network.bandwidth" || path == "cluster.bandwidth";
}

std::optional<double> bandwidth_of(const Result& result) {
  for (const ResolvedInput& input : result.inputs) {
    if (!is_bandwidth(input.path)) continue;
    const auto rate = parse_rate(input.value);
    if (const auto* read = std::get_if<Rate>(&rate)) return read->bytes_per_second() * 8e-9;
  }
  return std::nullopt;
}

std::string legend(std::initializer_list<std::pair<int, const char*>> names) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [colour, name] : names) entries.emplace_back(fmt::format("b{}", colour), name);
  return legend_of(entries);
}

std::string limit_of(const std::string& kind) {
  if (kind == "gpu") return "Computing";
  if (kind == "straggler") return "The slowest worker";
  return kind == "input" ? "Input" : "The " + kind;
}

}  // namespace

std::string left_out(std::size_t shown, std::size_t all) {
  return all <= shown ? ""
                      : fmt::format("<p class=\"note\">The first {} of {}.</p>\n", shown,
                                    console::whole(static_cast<std::int64_t>(all)));
}

bool is_scale(const std::string& path) {
  return path == "cluster.nodes" || path == "cluster.gpus_per_node" || path == "cluster.workers" ||
         path == "cluster.hosts" || path == "batch.global" || path == "batch.per_worker";
}

std::vector<std::size_t> chosen_lines(std::size_t room, std::size_t all) {
  std::vector<std::size_t> chosen;
  const std::size_t count = std::min(room, all);
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(count < 2 ? 0 : i * (all - 1) / (count - 1));
  return chosen;
}

std::string left_out_lines(std::size_t room, std::size_t all) {
  return all <= room ? "" : fmt::format("<p class=\"note\">{} of {} lines.</p>\n", room, all);
}

std::string html_verdict(std::span<const Result> results) {
  if (results.size() == 1) return "<p class=\"verdict\">" + escaped_html(results[0].limiting.text) + "</p>\n";
  struct Kind {
    std::string name;
    std::int64_t count = 0;
    const Result* worst = nullptr;
  };
  std::vector<Kind> kinds;
  for (const Result& result : results) {
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Kind& each) { return each.name == result.limiting.kind; });
    if (kind == kinds.end()) kind = kinds.insert(kind, {result.limiting.kind, 0, &result});
    ++kind->count;
    if (result.efficiency < kind->worst->efficiency) kind->worst = &result;
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.count > b.count; });
  std::string out;
  for (const Kind& kind : kinds) {
    out += fmt::format("<p class=\"verdict\">{} limits {} of {}, most of all {}: {}</p>\n",
                       escaped_html(limit_of(kind.name)), console::whole(kind.count),
                       console::whole(static_cast<std::int64_t>(results.size())),
                       escaped_html(kind.worst->scenario), escaped_html(kind.worst->limiting.text));
  }
  return out;
}

std::string html_bandwidths(std::span<const Result> results) {
  std::map<std::string, std::set<std::string>> values;
  for (const Result& result : results)
    for (const ResolvedInput& input : result.inputs) values[input.path].insert(input.value);
  // By size, then by what else results differ in.
  using Key = std::tuple<std::string, int, std::int64_t, std::string>;
  std::map<Key, std::map<double, const Result*>> lines;
  for (const Result& result : results) {
    const auto bandwidth = bandwidth_of(result);
    if (!bandwidth || result.workers < 2 || result.nodes < 2) continue;
    std::string others;
    for (const ResolvedInput& input : result.inputs) {
      if (is_scale(input.path) || is_bandwidth(input.path) || values[input.path].size() < 2) continue;
      // Of a list or a map, as a schedule is, the scenario's name says more.
      const bool is_long = input.value.find_first_of("[{") != std::string::npos;
      others += ", " + (is_long ? result.scenario
                                : input.path.substr(input.path.rfind('.') + 1) + ' ' + input.value);
    }
    lines[{result.model, result.workers, result.batch_per_worker, others}].emplace(*bandwidth, &result);
  }
  std::erase_if(lines, [](const auto& line) { return line.second.size() < 2; });
  if (lines.empty()) return "";
  LineChart chart;
  chart.title = "Step over the network's bandwidth";
  chart.x_title = "Gbit/s";
  double most = 0;
  for (const auto& [key, points] : lines)
    for (const auto& [bandwidth, result] : points) most = std::max(most, result->step.time);
  const TimeUnit unit = time_unit(most);
  chart.y_title = unit.name;
  for (const std::size_t chosen : chosen_lines(most_lines, lines.size())) {
    const auto& [key, points] = *std::next(lines.begin(), static_cast<std::ptrdiff_t>(chosen));
    const auto& [model, workers, batch, others] = key;
    LineChart::Series series{fmt::format("{}{} workers, batch {} each{}", model.empty() ? "" : model + ", ",
                                         workers, batch, others),
                             {},
                             false};
    for (const auto& [bandwidth, result] : points) {
      series.points.emplace_back(bandwidth, unit.per_second * result->step.time);
      series.intervals.emplace_back(unit.per_second * result->step.low, unit.per_second * result->step.high);
    }
    chart.series.push_back(std::move(series));
  }
  return "<h2>Step over the network's bandwidth</h2>\n" + svg_of(chart) +
         left_out_lines(most_lines, lines.size());
}

std::string html_links(std::span<const Result> results) {
  StackedBars chart;
  chart.title = "How busy the busiest links are";
  std::size_t all = 0;
  for (const Result& result : results) {
    const auto busiest =
        std::max_element(result.links.begin(), result.links.end(),
                         [](const LinkUse& a, const LinkUse& b) { return a.utilisation < b.utilisation; });
    if (busiest == result.links.end() || busiest->bytes_per_step <= 0 || ++all > most_bars) continue;
    const LinkUse& link = *busiest;
    StackedBars::Row row;
    row.label = result.scenario + ": " + link.name;
    row.value = console::percent(link.utilisation);
    row.parts.push_back({link.utilisation, 3,
                         fmt::format("{} x {}: {} a step, {} of what it carries", link.count,
                                     format_byte_rate(Rate(link.bandwidth)),
                                     format_bytes(link.bytes_per_step), console::percent(link.utilisation))});
    row.parts.push_back({std::max(0.0, 1 - link.utilisation), 5, "idle"});
    chart.rows.push_back(std::move(row));
  }
  if (chart.rows.empty()) return "";
  return "<h2>How busy the busiest links are</h2>\n" + legend({{3, "carries gradients"}, {5, "idle"}}) +
         svg_of(chart) + left_out(most_bars, all);
}

std::string html_launches(std::span<const Result> results) {
  const bool knows_host = std::any_of(results.begin(), results.end(),
                                      [](const Result& result) { return result.gpu.launching > 0; });
  std::string rows;
  std::size_t all = 0;
  std::set<std::tuple<std::string, std::string, std::string>> known;
  for (const Result& result : results) {
    const GpuUse& gpu = result.gpu;
    if (gpu.launches <= 0) continue;
    const std::string count = console::whole(std::llround(gpu.launches)),
                      each = gpu.launching > 0 ? format_time(gpu.launching / gpu.launches) : "not known";
    if (!known.emplace(result.model, count, each).second || ++all > most_shown_results) continue;
    rows += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td>", escaped_html(result.scenario), count);
    if (knows_host) {
      rows += fmt::format("<td class=\"n\">{}</td><td class=\"n\">{}</td>", each,
                          gpu.launching > 0 ? format_time(gpu.launching) : "not known");
    }
    rows += "</tr>\n";
  }
  if (rows.empty()) return "";
  return "<h2>Launches of a step</h2>\n" +
         scrolled_table(
             "launches of a step",
             std::string("<th>scenario</th><th class=\"n\">launches</th>") +
                 (knows_host ? "<th class=\"n\">host, each</th><th class=\"n\">host, all</th>" : ""),
             rows) +
         left_out(most_shown_results, all);
}

std::string html_memory(std::span<const Result> results) {
  StackedBars chart;
  chart.title = "Memory of a GPU";
  std::size_t all = 0;
  std::set<std::tuple<std::string, double, double, double, double>> known;
  for (const Result& result : results) {
    const Memory& memory = result.memory;
    // What a scaling curve has in common is shown once.
    const auto alike =
        std::tuple(result.model, memory.peak, memory.capacity, memory.parameters, memory.activations);
    if (memory.peak <= 0 || !known.insert(alike).second || ++all > most_bars) continue;
    StackedBars::Row row;
    row.label = result.scenario + (memory.fits ? "" : ": does not fit");
    row.value =
        format_bytes(memory.peak) + (memory.capacity > 0 ? " of " + format_bytes(memory.capacity) : "");
    double rest = memory.peak;
    const auto part = [&](double bytes, int colour, const char* name) {
      const double shown = std::min(bytes, rest);
      if (shown <= 0) return;
      row.parts.push_back({shown, colour, fmt::format("{}: {}", name, format_bytes(bytes))});
      rest -= shown;
    };
    part(memory.parameters, 2, "parameters");
    part(memory.gradients, 1, "gradients");
    part(memory.optimizer, 0, "optimizer");
    part(memory.activations, 3, "activations");
    part(rest, 5, "workspace, buckets and the rest");
    chart.rows.push_back(std::move(row));
  }
  if (chart.rows.empty()) return "";
  return "<h2>Memory of a GPU</h2>\n" +
         legend(
             {{2, "parameters"}, {1, "gradients"}, {0, "optimizer"}, {3, "activations"}, {5, "the rest"}}) +
         svg_of(chart) + left_out(most_bars, all);
}

}  // namespace foretrain

#include "sim/output/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/parse_units.hpp"
#include "sim/output/console_parts.hpp"
#include "sim/output/html_job.hpp"
#include "sim/output/html_resources.hpp"
#include "sim/output/html_style.hpp"
#include "sim/output/html_timeline.hpp"
#include "sim/output/svg_chart.hpp"

namespace foretrain {
namespace {

using console::grouped;
using console::percent;
using console::whole;

constexpr std::array part_names{"forward", "backward", "optimizer", "exposed communication",
                                "waiting", "host",     "input"};

std::array<double, part_names.size()> parts_of(const Breakdown& b) {
  return {b.forward, b.backward, b.optimizer, b.exposed_communication, b.waiting, b.host, b.input};
}

std::string cell(const std::string& text, bool is_number = false) {
  return fmt::format("<td{}>{}</td>", is_number ? " class=\"n\"" : "", escaped_html(text));
}

// A sentence, which breaks where a page is narrow.
std::string sentence(const std::string& text) {
  return "<td class=\"t\">" + escaped_html(text) + "</td>";
}

// What is the same of "NAME (batch=32)", "NAME (batch=64)"; empty where there is nothing.
std::string shared_name(std::span<const Result> results) {
  const std::size_t begin = results[0].scenario.find(" (");
  if (results.size() < 2 || begin == std::string::npos) return "";
  const std::string start = results[0].scenario.substr(0, begin + 2);
  const bool is_shared = std::all_of(results.begin(), results.end(), [&](const Result& r) {
    return r.scenario.starts_with(start) && r.scenario.ends_with(')');
  });
  return is_shared ? start.substr(0, begin) : "";
}

// The results by what their names differ in.
std::vector<Result> named_apart(std::span<const Result> results, const std::string& shared) {
  std::vector<Result> out(results.begin(), results.end());
  const std::size_t begin = shared.size() + 2;
  for (Result& r : out) r.scenario = r.scenario.substr(begin, r.scenario.size() - begin - 1);
  return out;
}

std::string summary_table(std::span<const Result> results) {
  std::string rows;
  for (const Result& r : results) {
    rows += "<tr>" + cell(r.scenario) + cell(whole(r.workers), true) + cell(format_time(r.step.time), true) +
            cell(format_time(r.step.low) + " to " + format_time(r.step.high), true) +
            cell(grouped(r.units_per_second) + ' ' + r.unit + "/s", true) +
            cell(percent(r.efficiency), true) + cell(r.limiting.kind) + "</tr>\n";
  }
  return scrolled_table(
      "scenarios",
      "<th>scenario</th><th class=\"n\">workers</th><th class=\"n\">step</th><th class=\"n\">90 % "
      "interval</th><th class=\"n\">throughput</th><th class=\"n\">efficiency</th><th>limit</th>",
      rows, results.size());
}

std::string breakdown_chart(std::span<const Result> results) {
  StackedBars chart;
  chart.title = "Where the time of a step goes";
  std::array<bool, part_names.size()> occurs{};
  const bool are_as_many =
      results.size() > 1 && std::all_of(results.begin(), results.end(),
                                        [&](const Result& r) { return r.workers == results[0].workers; });
  for (const Result& r : results.first(std::min(results.size(), most_shown_results))) {
    StackedBars::Row row;
    row.label = r.scenario;
    if (!are_as_many) row.label += fmt::format(" ({} worker{})", r.workers, r.workers == 1 ? "" : "s");
    row.value = format_time(r.step.time);
    row.low = r.step.low;
    row.high = r.step.high;
    const auto parts = parts_of(r.step.breakdown);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] <= 0) continue;
      occurs[i] = true;
      row.parts.push_back(
          {parts[i], static_cast<int>(i),
           fmt::format("{}: {}, {}", part_names[i], format_time(parts[i]), percent(parts[i] / r.step.time))});
    }
    chart.rows.push_back(std::move(row));
  }
  std::vector<std::pair<std::string, std::string>> legend;
  for (std::size_t i = 0; i < occurs.size(); ++i) {
    if (occurs[i]) legend.emplace_back(fmt::format("b{}", i), part_names[i]);
  }
  return "<h2>Where the time of a step goes</h2>\n" + legend_of(legend) + svg_of(chart) +
         left_out(most_shown_results, results.size());
}

struct Family {
  std::string key, label;
  std::vector<const Result*> members;  // by workers
};

std::vector<Family> families_of(std::span<const Result> results) {
  std::map<std::string, std::set<std::string>> values;
  for (const Result& r : results) {
    for (const ResolvedInput& input : r.inputs) {
      if (!is_scale(input.path)) values[input.path].insert(input.value);
    }
  }
  std::vector<Family> families;
  for (const Result& r : results) {
    std::string label;
    bool is_long = false;  // a list or a map, as a schedule is: the scenario's name says more
    for (const ResolvedInput& input : r.inputs) {
      if (is_scale(input.path) || values[input.path].size() < 2) continue;
      const std::size_t dot = input.path.rfind('.');
      label += (label.empty() ? "" : ", ") +
               (dot == std::string::npos ? input.path : input.path.substr(dot + 1)) + ' ' + input.value;
      is_long |= input.value.find_first_of("[{") != std::string::npos;
    }
    if (label.empty()) label = r.model.empty() ? "predicted" : r.model;
    auto found =
        std::find_if(families.begin(), families.end(), [&](const Family& f) { return f.key == label; });
    if (found == families.end())
      found = families.insert(families.end(), {label, is_long ? r.scenario : label, {}});
    found->members.push_back(&r);
  }
  for (Family& family : families) {
    std::stable_sort(family.members.begin(), family.members.end(),
                     [](const Result* a, const Result* b) { return a->workers < b->workers; });
  }
  return families;
}

std::string scaling_chart(std::span<const Result> results) {
  std::set<int> workers;
  for (const Result& r : results) workers.insert(r.workers);
  if (workers.size() < 2) return "";
  LineChart chart;
  chart.title = "Throughput over workers";
  chart.x_title = "workers";
  chart.y_title = results[0].unit + "/s";
  constexpr std::size_t most_lines = 6;
  const std::vector<Family> families = families_of(results);
  for (const std::size_t i : chosen_lines(most_lines, families.size())) {
    LineChart::Series series{families[i].label, {}, false};
    for (const Result* r : families[i].members) {
      series.points.emplace_back(r->workers, r->units_per_second);
      if (r->step.low > 0 && r->step.high > r->step.low) {
        series.intervals.emplace_back(r->units_per_second * r->step.time / r->step.high,
                                      r->units_per_second * r->step.time / r->step.low);
      } else {
        series.intervals.emplace_back(0, 0);
      }
    }
    chart.series.push_back(std::move(series));
  }
  // What one worker's throughput would give without any loss.
  const Result& least = *std::min_element(
      results.begin(), results.end(), [](const Result& a, const Result& b) { return a.workers < b.workers; });
  const double one = least.units_per_second / (least.efficiency * least.workers);
  LineChart::Series ideal{"without any loss", {}, true};
  for (const int count : workers) ideal.points.emplace_back(count, one * count);
  chart.series.push_back(std::move(ideal));
  return "<h2>Throughput over workers</h2>\n" + svg_of(chart) + left_out_lines(most_lines, families.size());
}

std::string facts_of(const Result& r) {
  std::string out = "<dl>";
  auto fact = [&](const std::string& name, const std::string& value) {
    out += "<dt>" + escaped_html(name) + "</dt><dd>" + escaped_html(value) + "</dd>\n";
  };
  fact("batch", fmt::format("{} ({} a worker)", whole(r.batch_global), whole(r.batch_per_worker)));
  if (r.gpu.launches > 0) {
    fact("launches", whole(std::llround(r.gpu.launches)) + " a step" +
                         (r.gpu.launching > 0 ? fmt::format(", for which the host takes {}: {} each",
                                                            format_time(r.gpu.launching),
                                                            format_time(r.gpu.launching / r.gpu.launches))
                                              : ""));
  }
  if (r.communication.collectives > 0) {
    fact("gradients", fmt::format("{} a worker in {} collectives, {} hidden",
                                  format_bytes(r.communication.bytes_per_worker), r.communication.collectives,
                                  percent(r.communication.overlap)));
  }
  for (const LinkUse& link : r.links) {
    fact("link " + link.name,
         fmt::format("{} x {}, {} a step, {} busy", link.count, format_byte_rate(Rate(link.bandwidth)),
                     format_bytes(link.bytes_per_step), percent(link.utilisation)));
  }
  if (r.memory.peak > 0) {
    fact("memory", format_bytes(r.memory.peak) + " a worker at the peak" +
                       (r.memory.capacity > 0 ? " of " + format_bytes(r.memory.capacity) : "") +
                       (r.memory.fits ? "" : ": does not fit"));
  }
  if (r.job) {
    fact("job", fmt::format("{}, {} updates, {} GPU-hours{}", format_time(r.job->time), whole(r.job->updates),
                            grouped(r.job->gpu_hours),
                            r.job->cost ? fmt::format(", {:.2f} {}", *r.job->cost, r.job->currency) : ""));
  }
  return out + "</dl>\n";
}

// Paper has no way to open what is folded; of many results it would be a pile.
constexpr std::size_t most_printed_details = 8;

std::string details_of(const Result& r, bool open, bool is_printed) {
  std::string out =
      fmt::format("<details{}{}><summary>{}</summary>\n", is_printed ? " class=\"printed\"" : "",
                  open ? " open" : "", escaped_html(r.scenario));
  if (!open) out += fmt::format("<p class=\"verdict\">{}</p>\n", escaped_html(r.limiting.text));
  out += facts_of(r);
  if (!r.remedies.empty()) {
    std::string rows;
    for (const Remedy& remedy : r.remedies) {
      rows += "<tr>" + cell(remedy.change) + cell(format_time(remedy.step), true) +
              cell(fmt::format("{:.2f} x", remedy.speedup), true) + sentence(remedy.cost) + "</tr>\n";
    }
    out += "<h3>What would help</h3>" +
           scrolled_table(r.scenario + ": what would help",
                          "<th>change</th><th class=\"n\">step</th><th class=\"n\">faster</th><th>price</th>",
                          rows);
  }
  if (!r.sensitivity.empty()) {
    std::string rows;
    for (const Sensitivity& each : r.sensitivity) {
      rows += "<tr>" + cell(each.input) + cell(each.change) + cell(format_time(each.step), true) +
              cell(fmt::format("{:.3f} x", each.speedup), true) +
              cell(each.critical ? "" : "not on the critical path") + "</tr>\n";
    }
    out += "<h3>What the step depends on</h3>" +
           scrolled_table(r.scenario + ": what the step depends on",
                          "<th>input</th><th>change</th><th class=\"n\">step</th><th "
                          "class=\"n\">faster</th><th></th>",
                          rows);
  }
  for (const std::string& text : console::extrapolations(r)) {
    out += "<p class=\"warning\">extrapolated: " + escaped_html(text) + "</p>\n";
  }
  for (const std::string& text : r.warnings) out += "<p class=\"warning\">" + escaped_html(text) + "</p>\n";
  if (!r.inputs.empty()) {
    std::string rows;
    for (const ResolvedInput& input : r.inputs) {
      rows += "<tr>" + cell(input.path) + cell(input.value) +
              cell(std::string(name_of(input.origin)) + (input.is_default ? " (default)" : "")) + "</tr>\n";
    }
    out += "<h3>What it rests on</h3>" + scrolled_table(r.scenario + ": what it rests on",
                                                        "<th>input</th><th>value</th><th>origin</th>", rows);
  }
  return out + "</details>\n";
}

std::string title_of(std::span<const Result> results) {
  const std::string& question = results[0].question;
  const bool shared =
      std::all_of(results.begin(), results.end(), [&](const Result& r) { return r.question == question; });
  if (shared && !question.empty()) return question;
  return results.size() == 1 ? results[0].scenario
                             : fmt::format("{} scenarios", whole(static_cast<std::int64_t>(results.size())));
}

std::string all_details(std::span<const Result> results) {
  const bool are_printed = results.size() <= most_printed_details;
  std::string out = fmt::format("<section{}>\n<h2>In detail</h2>\n", are_printed ? "" : " class=\"screen\"");
  for (const Result& r : results.first(std::min(results.size(), most_shown_results)))
    out += details_of(r, results.size() == 1, are_printed);
  return out + left_out(most_shown_results, results.size()) + "</section>\n";
}

void write_results(std::span<const Result> results, const std::optional<ValidationSummary>& validation,
                   const HtmlExtras& extras, const TextSink& sink) {
  sink(html_verdict(results));
  sink(summary_table(results));
  for (const std::string& line : console::validation_lines(results, validation))
    sink("<p class=\"note\">" + escaped_html(line) + "</p>\n");
  sink(breakdown_chart(results));
  sink("<p class=\"note\">The line across the end of a bar is the 90 % interval of the median step.</p>\n");
  sink(html_launches(results));
  if (extras.timeline != nullptr) sink(html_timeline(*extras.timeline));
  sink(scaling_chart(results));
  sink(html_bandwidths(results));
  sink(html_jobs(results));
  sink(html_links(results));
  sink(html_memory(results));
}

}  // namespace

void write_html(std::span<const Result> given, const std::optional<ValidationSummary>& validation,
                const TextSink& sink, const HtmlExtras& extras) {
  if (given.empty() && extras.sections.empty()) return;
  const std::string shared = given.empty() ? "" : shared_name(given);
  std::vector<Result> apart;
  if (!shared.empty()) apart = named_apart(given, shared);
  const std::span<const Result> results = shared.empty() ? given : apart;
  const std::string title = results.empty() ? "Measured and predicted" : escaped_html(title_of(results));
  sink(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>\n");
  sink(html_style);
  sink("</style></head><body><main>\n<h1>" + title + "</h1>\n");
  if (!shared.empty()) {
    sink(fmt::format("<p class=\"note\">{}, {} scenarios</p>\n", escaped_html(shared),
                     whole(static_cast<std::int64_t>(results.size()))));
  }
  if (!results.empty()) write_results(results, validation, extras, sink);
  for (const std::string& section : extras.sections) sink(section);
  if (!results.empty()) sink(all_details(results));
  sink("<footer>foretrain " FORETRAIN_VERSION "</footer>\n</main></body></html>\n");
}

}  // namespace foretrain

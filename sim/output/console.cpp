#include "sim/output/console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/parse_units.hpp"
#include "sim/output/console_parts.hpp"

namespace foretrain {
namespace {

using console::grouped;
using console::percent;

std::string rate_heading(std::span<const Result> results) {
  for (const Result& result : results) {
    if (result.unit != results[0].unit) return "units/s";
  }
  return results[0].unit + "/s";
}

Ink ink_of_limit(const std::string& kind) {
  if (kind == "gpu") return Ink::green;
  return kind == "straggler" ? Ink::magenta : Ink::yellow;
}

int widest_line(const std::string& text) {
  int widest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    widest = std::max(widest, display_width(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return widest;
}

// The columns that tell the rows apart: the values of a sweep, or the names of the scenarios.
RowLabels labels_of(std::span<const Result> results, const ConsoleOptions& options, int name_room) {
  if (!options.labels.headings.empty()) {
    RowLabels labels = options.labels;
    for (auto& row : labels.rows) {
      for (std::string& cell : row) cell = shortened(cell, name_room, options.style);
    }
    return labels;
  }
  if (results.size() < 2) return {{""}, {{""}}};
  RowLabels labels{{"scenario"}, {}};
  std::vector<std::string> names;
  for (const Result& result : results) names.push_back(result.scenario);
  for (std::string& name : distinct_names(std::move(names), name_room, options.style)) {
    labels.rows.push_back({std::move(name)});
  }
  return labels;
}

std::string table_of(std::span<const Result> results, const ConsoleOptions& options) {
  using Align = TextTable::Align;
  const TextStyle& style = options.style;
  auto build = [&](int name_room, int bar_width) {
    const RowLabels labels = labels_of(results, options, name_room);
    std::vector<Align> columns(labels.headings.size(), Align::left);
    columns.insert(columns.end(), {Align::right, Align::right, Align::left, Align::right, Align::right,
                                   Align::left, Align::left});
    TextTable table(std::move(columns));
    auto add = [&](std::vector<std::string> cells, const std::vector<std::string>& rest) {
      cells.insert(cells.end(), rest.begin(), rest.end());
      table.add(std::move(cells));
    };
    constexpr int roomy_bar = 13;
    add(labels.headings, {"workers", "step", "90 % int.", rate_heading(results), "eff.",
                          bar_width < roomy_bar ? "parts" : "where it goes", "limit"});
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Result& result = results[i];
      const auto step = console::step_with_interval(result.step);
      add(labels.rows[i],
          {std::to_string(result.workers), step.step, step.interval, grouped(result.units_per_second),
           percent(result.efficiency), console::bar(result.step.breakdown, bar_width, style),
           inked(result.limiting.kind, ink_of_limit(result.limiting.kind), style)});
    }
    return table.text(results.size() > 1 ? "" : " ");
  };
  // Names are cut first, then the bar grows into what is left.
  constexpr int narrow_bar = 6, widest_bar = 24, shortest_name = 5, longest_name = 40;
  int room = 0;
  for (const auto& row : options.labels.rows) {
    for (const std::string& value : row) room = std::max(room, display_width(value));
  }
  if (options.labels.rows.empty()) {
    for (const Result& result : results) room = std::max(room, display_width(result.scenario));
  }
  room = std::min(room, longest_name);
  std::string text = build(room, narrow_bar);
  const int label_columns = std::max<int>(1, static_cast<int>(options.labels.headings.size()));
  for (int excess = widest_line(text) - style.width; excess > 0 && room > shortest_name;
       excess = widest_line(text) - style.width) {
    room = std::max(shortest_name, room - (excess + label_columns - 1) / label_columns);
    text = build(room, narrow_bar);
  }
  const int bar_width = std::clamp(narrow_bar + style.width - widest_line(text), narrow_bar, widest_bar);
  return build(room, bar_width);
}

// Sentences of several results, each with the names of those that share it.
class Sentences {
 public:
  void add(const std::string& text, const std::string& scenario) {
    auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return one.text == text; });
    if (found == all_.end()) found = all_.insert(all_.end(), {text, {}});
    found->scenarios.push_back(scenario);
  }
  std::size_t size() const { return all_.size(); }
  std::string text(const char* label, std::size_t results, Ink ink, const TextStyle& style) const {
    constexpr std::size_t most_sentences = 12;
    std::string out;
    for (const auto& [sentence, scenarios] : all_) {
      if (&sentence == &all_[std::min(most_sentences, all_.size() - 1)].text &&
          all_.size() > most_sentences) {
        out += inked(label, ink, style) +
               fmt::format(" and {} more, which --json lists\n", all_.size() - most_sentences);
        break;
      }
      std::string who;
      constexpr std::size_t most_names = 3;
      if (results > 1 && scenarios.size() < results) {
        const std::size_t shown = scenarios.size() > most_names ? most_names - 1 : scenarios.size();
        for (std::size_t i = 0; i < shown; ++i) who += (i == 0 ? "" : ", ") + scenarios[i];
        if (shown < scenarios.size()) who += fmt::format(" and {} more", scenarios.size() - shown);
        who += ": ";
      }
      const std::string head = label[0] == '\0' ? "" : inked(label, ink, style) + ' ';
      out += wrapped(who + sentence, style.width, head, head.empty() ? "" : "  ");
    }
    return out;
  }

 private:
  struct Sentence {
    std::string text;
    std::vector<std::string> scenarios;
  };
  std::vector<Sentence> all_;
};

// Of many results the least efficient one of each limit, and how many share it.
std::string verdicts_by_limit(std::span<const Result> results, const ConsoleOptions& options) {
  struct Group {
    std::size_t worst = 0, count = 0;
  };
  std::map<std::string, Group> groups;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Group& group = groups[results[i].limiting.kind];
    if (group.count++ == 0 || results[i].efficiency < results[group.worst].efficiency) group.worst = i;
  }
  std::string out;
  for (const auto& [kind, group] : groups) {
    const Result& worst = results[group.worst];
    const std::string& name = options.names.empty() ? worst.scenario : options.names[group.worst];
    out += wrapped(fmt::format("{} limits {} of {}, {}{}: {}", kind, group.count, results.size(),
                               group.count > 1 ? "most of all " : "", name, worst.limiting.text),
                   options.style.width, "", "  ");
  }
  return out;
}

}  // namespace

std::string console_text(std::span<const Result> results, const ConsoleOptions& options) {
  const TextStyle& style = options.style;
  if (results.empty()) return "";
  std::string out = console::heading(results, style) + '\n';
  out += table_of(results, options);
  for (const std::string& line : console::validation_lines(results, options.validation)) {
    std::string lines = wrapped(line, style.width, "", "  ");
    lines.pop_back();
    out += inked(lines, Ink::dim, style) + '\n';
  }
  const std::string legend = console::legend(results, style);
  if (!legend.empty()) out += "parts: " + legend + '\n';
  for (const Result& result : results) {
    if (results.size() > 1 && !options.details) break;
    out += '\n';
    if (results.size() > 1) out += inked(result.scenario, Ink::bold, style) + '\n';
    out += console::details(result, style);
    if (options.details) out += '\n' + console::inputs(result, style);
  }
  if (results.size() > 1) {
    constexpr int name_room = 24;
    out += console::job_table(results, labels_of(results, options, name_room).rows, style);
  }
  std::vector<std::string> names = options.names;
  if (names.empty())
    for (const Result& result : results) names.push_back(result.scenario);
  Sentences verdicts;
  for (std::size_t i = 0; i < results.size(); ++i) verdicts.add(results[i].limiting.text, names[i]);
  constexpr std::size_t few = 4;
  out += '\n';
  out += verdicts.size() <= few ? verdicts.text("", results.size(), Ink::plain, style)
                                : verdicts_by_limit(results, options);
  out += console::remedies(results, style);
  out += console::sensitivity(results, style);
  return out + caveats_text(results, names, style);
}

std::string caveats_text(std::span<const Result> results, std::span<const std::string> names,
                         const TextStyle& style) {
  Sentences warnings, extrapolated;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& result = results[i];
    for (const std::string& warning : result.warnings) warnings.add(warning, names[i]);
    for (const std::string& sentence : console::extrapolations(result)) extrapolated.add(sentence, names[i]);
    if (!result.complete) warnings.add("interrupted: the result is incomplete", names[i]);
  }
  return extrapolated.text("extrapolated:", results.size(), Ink::yellow, style) +
         warnings.text("warning:", results.size(), Ink::yellow, style);
}

}  // namespace foretrain

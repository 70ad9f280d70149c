#include "sim/output/console_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/parse_units.hpp"

namespace foretrain::console {
namespace {

using Align = TextTable::Align;

struct Part {
  const char* name;
  const char* block;  // a sign that differs without colour too
  const char* letter;
  Ink ink;
};
constexpr std::array parts{Part{"compute", "\u2588", "#", Ink::green},
                           Part{"exposed communication", "\u2593", "=", Ink::yellow},
                           Part{"waiting", "\u2592", "-", Ink::magenta},
                           Part{"host", "\u2591", ".", Ink::cyan}, Part{"input", "\u00b7", "i", Ink::blue}};

std::vector<double> values_of(const Breakdown& b) {
  return {b.forward + b.backward + b.optimizer, b.exposed_communication, b.waiting, b.host, b.input};
}

std::string sign(std::size_t part, const TextStyle& style) {
  return style.unicode ? parts[part].block : parts[part].letter;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string batch_text(const Result& result) {
  std::string text = fmt::format("batch {}", whole(result.batch_global));
  if (result.workers > 1) text += fmt::format(" ({} a worker)", result.batch_per_worker);
  return text;
}

std::string workers_text(const Result& result) {
  std::string text = fmt::format("{} worker{}", result.workers, result.workers == 1 ? "" : "s");
  if (result.nodes > 1) text += fmt::format(" on {} nodes", result.nodes);
  return text;
}

// The value if all results share it.
template <class Get>
std::string common(std::span<const Result> results, Get get) {
  const std::string first = get(results[0]);
  const bool shared =
      std::all_of(results.begin(), results.end(), [&](const Result& result) { return get(result) == first; });
  return shared ? first : "";
}

}  // namespace

std::string grouped(double number) {
  if (number != 0 && std::fabs(number) < 1) return fmt::format("{:.2g}", number);
  if (std::fabs(number) < 1000) return fmt::format("{:.{}f}", number, std::fabs(number) < 100 ? 1 : 0);
  return whole(std::llround(number));
}

std::string whole(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3 + (number < 0 ? 1u : 0u);) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string percent(double fraction) {
  return fmt::format("{:.0f} %", fraction * 100);
}

StepText step_with_interval(const StepPrediction& step) {
  const std::string text = format_time(step.time);
  const std::size_t space = text.find(' ');
  double shown = 0;
  try {
    shown = std::stod(text.substr(0, space));
  } catch (const std::exception&) {
    return {text, ""};
  }
  // The unit that format_time has chosen, in seconds.
  const double unit =
      shown > 0 && step.time > 0 ? std::pow(10, std::round(std::log10(step.time / shown))) : 1;
  const bool decimal = std::fabs(shown * unit / step.time - 1) < 0.01;
  auto in_unit = [&](double seconds) {
    const double value = seconds / unit;
    return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
  };
  if (!decimal) return {text, format_time(step.low) + "-" + format_time(step.high)};
  return {text, in_unit(step.low) + "-" + in_unit(step.high)};
}

std::string bar(const Breakdown& breakdown, int width, const TextStyle& style) {
  const std::vector<int> cells = shares(values_of(breakdown), width);
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] > 0) out += inked(repeated(sign(i, style), cells[i]), parts[i].ink, style);
  }
  return out;
}

std::string legend(std::span<const Result> results, const TextStyle& style) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool occurs = std::any_of(results.begin(), results.end(), [&](const Result& result) {
      return values_of(result.step.breakdown)[i] > 0.005 * result.step.time;
    });
    if (!occurs) continue;
    out += (out.empty() ? "" : "  ") + inked(sign(i, style), parts[i].ink, style) + ' ' + parts[i].name;
  }
  return out;
}

std::string heading(std::span<const Result> results, const TextStyle& style) {
  std::string out;
  std::string title = common(results, [](const Result& r) { return r.question; });
  if (title.empty() && results.size() == 1) title = results[0].scenario;
  if (!title.empty()) out += wrapped(title, style.width, style.colour ? "\x1b[1m" : "", "");
  if (!title.empty() && style.colour) out.insert(out.size() - 1, "\x1b[0m");
  std::vector<std::string> facts{
      common(results, [](const Result& r) { return r.model; }),
      common(results, [](const Result& r) { return r.precision; }),
      common(results, [](const Result& r) { return batch_text(r); }),
      common(results, [](const Result& r) { return workers_text(r); }),
      common(results, [](const Result& r) { return r.strategy; }),
      common(results, [](const Result& r) { return r.topology; }),
      common(results, [](const Result& r) { return r.profile.empty() ? "" : "profile " + r.profile; })};
  // Batches differ where workers do: the batch of a worker is then what they share.
  if (facts[2].empty()) {
    facts[2] =
        common(results, [](const Result& r) { return fmt::format("batch {} a worker", r.batch_per_worker); });
  }
  std::string line;
  for (const std::string& fact : facts) {
    if (!fact.empty()) line += (line.empty() ? "" : ", ") + fact;
  }
  return line.empty() ? out : out + wrapped(line, style.width, "", "  ");
}

std::string details(const Result& result, const TextStyle& style) {
  const StepPrediction& step = result.step;
  const Breakdown& b = step.breakdown;
  const Communication& communication = result.communication;
  std::string hidden;
  if (communication.busy > 0) {
    hidden = fmt::format("{} hidden of {}", percent(communication.overlap), format_time(communication.busy));
  }
  // What stands before the bars, and the remark after one.
  constexpr int widest_bar = 30, narrowest_bar = 8, before_bar = 42;
  const int after_bar = b.exposed_communication > 0 ? display_width(hidden) + 1 : 0;
  const int bar_width = std::clamp(style.width - before_bar - after_bar, narrowest_bar, widest_bar);
  TextTable table({Align::left, Align::right, Align::right, Align::left});
  auto row = [&](const char* name, double seconds, std::size_t part, const std::string& remark) {
    if (seconds <= 0) return;
    const int cells = static_cast<int>(std::lround(seconds / step.time * bar_width));
    table.add({name, format_time(seconds), percent(seconds / step.time),
               inked(repeated(sign(part, style), cells), parts[part].ink, style) +
                   (remark.empty() ? "" : (cells > 0 ? " " : "") + remark)});
  };
  row("forward", b.forward, 0, "");
  row("backward", b.backward, 0, "");
  row("optimizer", b.optimizer, 0, "");
  row("exposed communication", b.exposed_communication, 1, hidden);
  row("waiting for others", b.waiting, 2, "");
  row("host", b.host, 3, "");
  row("input", b.input, 4, "");
  std::string out = table.text("  ");

  TextTable facts({Align::left, Align::left});
  if (communication.collectives > 0) {
    facts.add({"gradients",
               fmt::format("{} a worker in {} collective{}", format_bytes(communication.bytes_per_worker),
                           communication.collectives, communication.collectives == 1 ? "" : "s")});
  }
  for (const LinkUse& link : result.links) {
    facts.add({"link " + link.name,
               fmt::format("{} x {}, {} a step, {} busy", link.count, format_byte_rate(Rate(link.bandwidth)),
                           format_bytes(link.bytes_per_step), percent(link.utilisation))});
  }
  if (result.memory.peak > 0) {
    std::string text = format_bytes(result.memory.peak) + " a worker at the peak";
    if (result.memory.capacity > 0) {
      text += fmt::format(" of {}{}", format_bytes(result.memory.capacity),
                          result.memory.fits ? "" : inked(": does not fit", Ink::red, style));
    }
    facts.add({"memory", text});
  }
  const std::string fact_text = facts.text("  ", style.width, 1);
  if (!fact_text.empty()) out += '\n' + fact_text;
  return result.job ? out + '\n' + job_details(*result.job, style) : out;
}

std::string inputs(const Result& result, const TextStyle& style) {
  TextTable table({Align::left, Align::left, Align::left});
  for (const ResolvedInput& input : result.inputs) {
    table.add({input.path, input.value,
               std::string(name_of(input.origin)) + (input.is_default ? " (default)" : "")});
  }
  return table.text("  ", style.width, 1);
}

std::vector<std::string> validation_lines(std::span<const Result> results,
                                          const std::optional<ValidationSummary>& validation) {
  if (!validation) return {"not validated"};
  const auto said_by = [](const ErrorFigures& figures) {
    auto error = [](double fraction) {
      return fmt::format("{:.{}f} %", fraction * 100, fraction < 0.1 ? 1 : 0);
    };
    return fmt::format("mean {}, worst {}, {} row{}", error(figures.mean_abs_error),
                       error(figures.max_abs_error), figures.rows, figures.rows == 1 ? "" : "s");
  };
  std::vector<std::string> kinds;
  for (const Result& result : results)
    if (std::find(kinds.begin(), kinds.end(), result.kind) == kinds.end()) kinds.push_back(result.kind);
  constexpr std::size_t most_kinds = 6;
  // Results and validations of older versions tell no kind.
  const bool knows_kinds = !validation->kinds.empty() && kinds.size() <= most_kinds &&
                           std::find(kinds.begin(), kinds.end(), "") == kinds.end();
  if (!knows_kinds) return {"last validated: " + said_by(*validation)};
  std::vector<std::string> lines;
  bool is_any_missing = false;
  for (const std::string& kind : kinds) {
    const auto found = validation->kinds.find(kind);
    is_any_missing |= found == validation->kinds.end();
    lines.push_back(found == validation->kinds.end()
                        ? fmt::format("not validated ({})", kind)
                        : fmt::format("last validated ({}): {}", kind, said_by(found->second)));
  }
  if (is_any_missing) lines.push_back("last validated, all kinds: " + said_by(*validation));
  return lines;
}

std::vector<std::string> extrapolations(const Result& result) {
  constexpr std::size_t most_asked = 4;
  std::vector<std::string> texts;
  std::vector<Extrapolation> things;  // each once
  for (const Extrapolation& one : result.extrapolated) {
    const bool is_new = std::none_of(things.begin(), things.end(), [&](const Extrapolation& thing) {
      return thing.what == one.what && thing.range == one.range;
    });
    if (is_new) things.push_back(one);
  }
  for (const Extrapolation& thing : things) {
    std::string asked;
    std::size_t count = 0;
    for (const Extrapolation& one : result.extrapolated) {
      if (one.what != thing.what || one.range != thing.range) continue;
      if (++count <= most_asked) asked += (count == 1 ? "" : ", ") + one.asked;
    }
    if (count > most_asked) asked += fmt::format(" and {} more", count - most_asked);
    texts.push_back(fmt::format("{}: asked {}; {}", thing.what, asked,
                                thing.range.empty() ? "nothing measured" : "known " + thing.range));
  }
  return texts;
}

std::string sensitivity(std::span<const Result> results, const TextStyle& style) {
  if (results.size() != 1 || results[0].sensitivity.empty()) return "";
  std::string gains, idle;
  for (const Sensitivity& each : results[0].sensitivity) {
    std::string& list = each.critical ? gains : idle;
    list += (list.empty() ? "" : ", ") + each.input;
    if (each.critical) list += fmt::format(" ({}) {:.1f} %", each.change, 100 * (1 - 1 / each.speedup));
  }
  std::string text;
  if (!gains.empty()) text = "A step gets shorter with: " + gains + ".";
  if (!idle.empty()) text += (text.empty() ? "" : " ") + ("Not on the critical path: " + idle + ".");
  return '\n' + wrapped(text, style.width, "", "  ");
}

std::string remedies(std::span<const Result> results, const TextStyle& style) {
  if (results.size() != 1 || results[0].remedies.empty()) return "";
  constexpr std::size_t most_shown = 3;  // --json has them all
  constexpr std::size_t cost_column = 3;
  const auto shown = std::span(results[0].remedies).first(std::min(most_shown, results[0].remedies.size()));
  TextTable table({Align::left, Align::right, Align::right, Align::left});
  for (const Remedy& remedy : shown) {
    table.add(
        {remedy.change, format_time(remedy.step), fmt::format("{:.2f} x", remedy.speedup), remedy.cost});
  }
  return "\nWhat would help:\n" + table.text("  ", style.width, cost_column);
}

}  // namespace foretrain::console

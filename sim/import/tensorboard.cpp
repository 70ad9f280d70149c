#include "sim/import/tensorboard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/quantile.hpp"
#include "sim/base/utf8.hpp"
#include "sim/import/lines.hpp"
#include "sim/output/event_file.hpp"

namespace foretrain {
namespace {

using Series = std::map<std::string, std::vector<ScalarEvent>>;

std::string all_tags(const Series& series) {
  std::string out;
  for (const auto& [tag, events] : series)
    out += (out.empty() ? "" : ", ") + fmt::format("{} ({})", tag, events.size());
  return out.empty() ? "none" : out;
}

// Later writes of a step win: a job that was resumed repeats some.
std::vector<ScalarEvent> by_step(std::vector<ScalarEvent> events) {
  std::map<std::int64_t, ScalarEvent> last;
  for (ScalarEvent& each : events) last.insert_or_assign(each.step, std::move(each));
  std::vector<ScalarEvent> out;
  for (auto& [step, each] : last) out.push_back(std::move(each));
  return out;
}

const std::string& curve_tag(const Series& series, const ImportOptions& options) {
  if (!options.tag.empty()) {
    const auto found = series.find(options.tag);
    if (found != series.end()) return found->first;
    throw Error(ErrorKind::input, fmt::format("{}: has no scalar '{}': it has {}", options.file, options.tag,
                                              all_tags(series)));
  }
  for (const char* word : {"loss", "acc"}) {
    for (const auto& [tag, events] : series)
      if (lower_case(tag).find(word) != std::string::npos) return tag;
  }
  throw Error(ErrorKind::input,
              fmt::format("{}: no scalar's name holds loss or accuracy: say which with --tag; it has {}",
                          options.file, all_tags(series)));
}

Imported curve(const Series& series, const ImportOptions& options) {
  const std::string& tag = curve_tag(series, options);
  const std::vector<ScalarEvent> events = by_step(series.at(tag));
  const bool is_accuracy = lower_case(tag).find("acc") != std::string::npos;
  Imported out;
  out.content = fmt::format("# {} of an event file, imported\nupdates,{}\n", plain_line(tag),
                            is_accuracy ? "accuracy" : "loss");
  int left_out = 0;
  for (const ScalarEvent& each : events) {
    if (!std::isfinite(each.value) || each.step < 0) {
      ++left_out;
    } else {
      out.content += fmt::format("{},{:.7g}\n", each.step, each.value);
    }
  }
  if (left_out > 0) out.notes.push_back(fmt::format("{} points are no numbers: left out", left_out));
  out.summary = fmt::format("{}: {} points to update {}", tag,
                            events.size() - static_cast<std::size_t>(left_out), events.back().step);
  return out;
}

// Times between the points of the scalar with most of them.
struct Pace {
  std::vector<double> seconds;  // a step
  struct Pause {
    std::int64_t step = 0;
    double begin = 0, end = 0;  // wall times of the points around it
    double seconds = 0;
  };
  std::vector<Pause> pauses;  // what a point came later than its steps explain
  int restarts = 0;
};

Pace pace_of(const std::vector<ScalarEvent>& events) {
  Pace out;
  struct Gap {
    std::int64_t step;
    double begin, end, steps, seconds;
  };
  std::vector<Gap> gaps;
  std::vector<double> each_step;
  for (std::size_t i = 1; i < events.size(); ++i) {
    const double steps = static_cast<double>(events[i].step - events[i - 1].step),
                 seconds = events[i].wall_time - events[i - 1].wall_time;
    if (steps <= 0 || !(seconds > 0)) {
      ++out.restarts;
      continue;
    }
    gaps.push_back({events[i].step, events[i - 1].wall_time, events[i].wall_time, steps, seconds});
    each_step.push_back(seconds / steps);
  }
  if (each_step.empty()) return out;
  const double usual = median(each_step);
  std::vector<double> away;
  for (const double each : each_step) away.push_back(std::fabs(each - usual));
  const double spread = median(away);
  for (const Gap& gap : gaps) {
    // A pause is far outside the spread of steps, and longer than a step.
    const double extra = gap.seconds - gap.steps * usual;
    const bool is_pause = extra > std::max(usual, 8 * spread * gap.steps) && extra > 0.05 * gap.seconds;
    if (is_pause) {
      out.pauses.push_back({gap.step, gap.begin, gap.end, extra});
    } else {
      out.seconds.push_back(gap.seconds / gap.steps);
    }
  }
  return out;
}

// When scalars of an evaluation were written, by wall time, with the scalar's name. Those that were written
// far more often than there are pauses tell nothing of them.
std::map<double, std::string> evaluations_of(const Series& series, std::size_t pauses) {
  std::map<double, std::string> out;
  for (const auto& [tag, events] : series) {
    const std::string name = lower_case(tag);
    const bool is_evaluation =
        name.find("val") != std::string::npos || name.find("test") != std::string::npos;
    if (!is_evaluation || events.size() > 2 * pauses + 2) continue;
    for (const ScalarEvent& each : events)
      if (std::isfinite(each.wall_time)) out.emplace(each.wall_time, tag);
  }
  return out;
}

// What most pauses of one length are: "evaluation (val/loss)" where its scalars were written within them.
std::string cause_of(const std::vector<Pace::Pause>& pauses,
                     const std::map<double, std::string>& evaluations) {
  std::size_t evaluated = 0;
  std::string tag;
  for (const Pace::Pause& pause : pauses) {
    const auto found = evaluations.upper_bound(pause.begin);
    if (found == evaluations.end() || found->first > pause.end) continue;
    ++evaluated;
    tag = found->second;
  }
  if (2 * evaluated > pauses.size()) return fmt::format("evaluation ({})", plain_line(tag));
  return evaluations.empty() ? "evaluation, a checkpoint, or input" : "a checkpoint, or input";
}

// "every 500 updates a pause of 12 s (40 times): ..." for each kind of pause by its length.
std::vector<std::string> pauses_text(const Pace& pace, const std::map<double, std::string>& evaluations) {
  std::vector<std::vector<Pace::Pause>> kinds;  // of about the same length
  for (const Pace::Pause& pause : pace.pauses) {
    constexpr double alike = 1.5;
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) {
      const double ratio = pause.seconds / known.front().seconds;
      return ratio < alike && ratio > 1 / alike;
    });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), std::vector<Pace::Pause>());
    kind->push_back(pause);
  }
  std::vector<std::string> out;
  for (const auto& kind : kinds) {
    std::vector<double> lengths, periods;
    for (std::size_t i = 0; i < kind.size(); ++i) {
      lengths.push_back(kind[i].seconds);
      if (i > 0) periods.push_back(static_cast<double>(kind[i].step - kind[i - 1].step));
    }
    const std::string length = format_time(median(lengths));
    if (periods.empty()) {
      out.push_back(fmt::format("a pause of {} before update {}", length, kind.front().step));
      continue;
    }
    const std::string period = fmt::format("every {:.0f} updates", median(periods)),
                      key = fmt::format("every: {:.0f} updates", median(periods));
    out.push_back(fmt::format("{} a pause of {} ({} times): {}; in a job: log: {{ {}, time: {} }}", period,
                              length, kind.size(), cause_of(kind, evaluations), key, length));
  }
  return out;
}

Imported steps(const Series& series, const ImportOptions& options) {
  if (!options.batch)
    throw Error(ErrorKind::input,
                "import tensorboard: an event file does not say its batch: add --batch N (or name the target "
                ".csv for a curve)");
  const auto most = std::max_element(series.begin(), series.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  const Pace pace = pace_of(most->second);
  if (pace.seconds.empty())
    throw Error(ErrorKind::input, fmt::format("{}: no two points of {} are a step and a time apart",
                                              options.file, most->first));
  const double step = median(pace.seconds);
  std::vector<double> sorted = pace.seconds;
  std::sort(sorted.begin(), sorted.end());
  const double quartiles = quantile(sorted, 0.75) - quantile(sorted, 0.25);
  // Of the median, from the quartiles: what is rare in single steps counts little.
  const double error = 1.2533 * quartiles / 1.349 / std::sqrt(static_cast<double>(sorted.size()));
  Imported out;
  const std::vector<std::string> pauses = pauses_text(pace, evaluations_of(series, pace.pauses.size()));
  out.content = fmt::format("# Step times of an event file, imported: {} intervals of {}\n", sorted.size(),
                            plain_line(most->first));
  for (const std::string& text : pauses) out.content += "# " + text + '\n';
  out.content +=
      fmt::format("steps: [[{}, {:.9g} ms{}]]\n", *options.batch, step * 1e3,
                  error >= Time::picoseconds(1).in_seconds() ? fmt::format(", {:.6g} ms", error * 1e3) : "");
  if (options.gradient_bytes) out.content += fmt::format("gradients: {:.0f} B\n", *options.gradient_bytes);
  out.notes = pauses;
  if (pace.restarts > 0)
    out.notes.push_back(
        fmt::format("{} points go back in step or time (a job that was resumed): left out", pace.restarts));
  out.summary =
      fmt::format("{} points of {}: a step of {}", most->second.size(), most->first, format_time(step));
  return out;
}

}  // namespace

Imported import_tensorboard(std::string_view bytes, const ImportOptions& options) {
  const EventFile file = read_event_file(bytes, options.file);
  Series series;
  for (const ScalarEvent& each : file.events) series[each.tag].push_back(each);
  if (series.empty()) throw Error(ErrorKind::input, options.file + ": has no scalars");
  Imported out = options.target.ends_with(".csv") ? curve(series, options) : steps(series, options);
  if (file.damaged > 0) out.notes.push_back(fmt::format("{} records are damaged: left out", file.damaged));
  if (file.is_cut) out.notes.emplace_back("the file ends within a record: what was there is taken");
  return out;
}

}  // namespace foretrain

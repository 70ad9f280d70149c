// Jobs on the console.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/parse_units.hpp"
#include "sim/output/console_parts.hpp"

namespace foretrain::console {
namespace {

using Align = TextTable::Align;

std::string money(const JobPrediction& job) {
  if (!job.cost) return "";
  std::string text = fmt::format("{:.2f} {}", *job.cost, job.currency);
  if (!job.price_date.empty()) text += fmt::format(" (price of {})", job.price_date);
  return text;
}

std::string ratio(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : 1);
}

std::string small(double value) {
  return fmt::format("{:.3g}", value);
}

std::string parts_text(const JobPrediction& job) {
  const std::pair<const char*, double> parts[] = {
      {"training", job.training},     {"waiting for input", job.input},
      {"evaluation", job.evaluation}, {"checkpoints", job.checkpoint},
      {"start-up", job.startup},      {"changes of workers and batch", job.rescale},
      {"logging", job.logging},       {"the rule's looks at the loss", job.adaptation},
      {"failures", job.failing}};
  std::string text;
  for (const auto& [name, seconds] : parts) {
    if (seconds <= 0) continue;
    text += fmt::format("{}{} {} ({:.{}f} %)", text.empty() ? "" : ", ", name, format_time(seconds),
                        100 * seconds / job.time, seconds < 0.1 * job.time ? 1 : 0);
  }
  return text;
}

std::string phase_table(const JobPrediction& job) {
  if (job.phases.size() < 2) return "";
  TextTable table(
      {Align::right, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right});
  table.add({"from epoch", "batch", "workers", "step", "updates", "time", "learning rate"});
  constexpr std::size_t most_rows = 16;
  double epochs = 0;
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    const JobPhase& phase = job.phases[i];
    if (i < most_rows - 1 || i + 1 == job.phases.size()) {
      table.add({small(epochs), whole(phase.batch), std::to_string(phase.workers), format_time(phase.step),
                 whole(phase.updates), format_time(phase.time), small(phase.learning_rate)});
    } else if (i == most_rows - 1) {
      table.add({"...", fmt::format("{} more", job.phases.size() - most_rows), "", "", "", "", ""});
    }
    epochs += phase.epochs;
  }
  return table.text("    ");
}

std::string target_text(const JobPrediction& job) {
  const JobTarget& target = *job.target;
  const std::string what = fmt::format("{} {:g}", target.what, target.value);
  if (target.updates <= 0)
    return what + (target.reached ? " is met where the curve begins" : " is not reached on the curve");
  if (target.updates > static_cast<double>(job.updates))
    return fmt::format("{} takes {:.0f} updates: the job ends after {}", what, target.updates,
                       whole(job.updates));
  return fmt::format("{} after {:.0f} updates, {} ({} to {}, of {} run{}){}", what, target.updates,
                     format_time(target.time), format_time(target.low), format_time(target.high), target.runs,
                     target.runs == 1 ? "" : "s", target.reached ? "" : ": not by every run");
}

}  // namespace

std::string job_details(const JobPrediction& job, const TextStyle& style) {
  std::string out;
  auto line = [&](const std::string& name, const std::string& text) {
    constexpr std::size_t room = 10;
    std::string head = "  " + name;
    head.append(room > name.size() ? room - name.size() : 1, ' ');
    out += wrapped(text, style.width, head, std::string(room + 2, ' '));
  };
  std::string text = fmt::format(
      "{} ({} to {}) for {} epochs: {} updates, {} GPU-hours", format_time(job.time), format_time(job.low),
      format_time(job.high), fmt::format("{:.4g}", job.epochs), whole(job.updates), grouped(job.gpu_hours));
  if (job.cost) text += ", " + money(job);
  if (job.energy) text += fmt::format(", {:.3g} kWh", *job.energy / 3.6e6);
  line("job", text);
  line("made of", parts_text(job));
  if (job.failures) {
    line("failures",
         fmt::format("{:.1f} of them (mean of {} draw{}): {} done again, {} restarting", job.failures->count,
                     job.failures->draws, job.failures->draws == 1 ? "" : "s",
                     format_time(job.failures->lost), format_time(job.failures->restarting)));
  }
  if (job.checkpoint_bytes > 0) line("checkpoint", format_bytes(job.checkpoint_bytes));
  if (const std::string table = phase_table(job); !table.empty()) out += "  phases\n" + table;
  if (job.speedup) {
    std::string against =
        fmt::format("{}: {} x the speed, {} x fewer updates, {} x fewer GPU-hours", job.speedup->baseline,
                    ratio(job.speedup->time), ratio(job.speedup->updates), ratio(job.speedup->gpu_hours));
    if (job.speedup->cost) against += fmt::format(", {} x cheaper", ratio(*job.speedup->cost));
    line("against", against);
  }
  if (job.target) line("target", target_text(job));
  if (!job.assumption.empty()) line("assumed", job.assumption);
  for (const std::string& answer : job.answers) line("", answer);
  return out;
}

std::string job_table(std::span<const Result> results, const std::vector<std::vector<std::string>>& labels,
                      const TextStyle& style) {
  const bool any =
      std::any_of(results.begin(), results.end(), [](const Result& r) { return r.job.has_value(); });
  if (!any) return "";
  std::vector<Align> columns(labels[0].size(), Align::left);
  columns.insert(columns.end(), {Align::right, Align::right, Align::right, Align::right, Align::right});
  TextTable table(std::move(columns));
  std::vector<std::string> head(labels[0].size());
  head[0] = "job";
  head.insert(head.end(), {"updates", "time", "GPU-hours", "cost", "speedup"});
  table.add(std::move(head));
  std::string assumption;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].job) continue;
    const JobPrediction& job = *results[i].job;
    std::vector<std::string> cells = labels[i];
    cells.insert(cells.end(), {whole(job.updates), format_time(job.time), grouped(job.gpu_hours),
                               job.cost ? fmt::format("{:.2f} {}", *job.cost, job.currency) : "-",
                               job.speedup ? ratio(job.speedup->time) : "-"});
    table.add(std::move(cells));
    if (assumption.empty()) assumption = job.assumption;
  }
  std::string out = '\n' + table.text();
  if (!assumption.empty()) out += wrapped("assumed: " + assumption, style.width, "", "  ");
  return out;
}

}  // namespace foretrain::console

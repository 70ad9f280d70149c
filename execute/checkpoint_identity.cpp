#include "execute/checkpoint_identity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "sim/base/sha256.hpp"
#include "sim/input/job.hpp"

namespace foretrain {
namespace {

std::string parameters_text(const Model& model) {
  std::string all;
  for (const Parameter& parameter : model.parameters)
    all += fmt::format("{} {};", parameter.name, fmt::join(parameter.shape, "x"));
  return fmt::format("{} ({})", model.parameters.size(), sha256(all).substr(0, 12));
}

// How the batch goes over the updates; the same text where it goes the same way.
std::string batches_text(const Scenario& scenario) {
  const Job* job = scenario.job.get();
  if (job == nullptr || !job->schedule) return std::to_string(scenario.batch_global);
  const Schedule& schedule = *job->schedule;
  std::string text;
  for (const SchedulePhase& phase : schedule.phases)
    text += fmt::format("{}{} from {} {}", text.empty() ? "" : ", ", phase.batch, phase.from.amount,
                        phase.from.unit == Interval::Unit::epochs ? "epochs" : "updates");
  if (schedule.phases.empty())
    text = fmt::format("{} by {}, rate {}, dwell {}, most {}", schedule.batch, schedule.name, schedule.rate,
                       schedule.dwell, schedule.max_batch.value_or(0));
  constexpr std::size_t readable = 200;
  return text.size() <= readable ? text
                                 : text.substr(0, readable) + "... (" + sha256(text).substr(0, 12) + ')';
}

std::vector<std::pair<std::string, std::string>> lines_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = std::min(line.find(": "), line.size());
    lines.emplace_back(line.substr(0, colon), line.substr(std::min(colon + 2, line.size())));
  }
  return lines;
}

}  // namespace

std::string checkpoint_identity(const std::string& backend, const Scenario& scenario, std::uint64_t seed) {
  const Job* job = scenario.job.get();
  std::string text;
  const auto add = [&text](std::string_view name, const auto& value) {
    text += fmt::format("{}: {}\n", name, value);
  };
  add("backend", backend);
  add("model", scenario.model->name);
  add("parameters", parameters_text(*scenario.model));
  add("sequence", scenario.model->sequence);
  add("precision", name_of(scenario.precision));
  add("strategy", name_of(scenario.strategy.kind));
  add("optimizer", optimizer_entry_name(scenario.optimizer));
  add("accumulation", scenario.strategy.accumulation);
  add("batches", batches_text(scenario));
  add("last batch", job == nullptr ? "none" : name_of(job->last_batch));
  add("samples", scenario.dataset_samples.value_or(0));
  add("seed", seed);
  return text;
}

std::string identity_difference(const std::string& there, const std::string& here) {
  const auto before = lines_of(there), now = lines_of(here);
  std::string text;
  const auto value_in = [](const auto& lines, const std::string& name) -> std::string {
    const auto found =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == name; });
    return found == lines.end() ? "unknown" : found->second;
  };
  for (const auto& [name, value] : now) {
    const std::string other = value_in(before, name);
    if (other != value)
      text += fmt::format("{}{} is '{}' there, '{}' here", text.empty() ? "" : "; ", name, other, value);
  }
  for (const auto& [name, value] : before) {
    if (value_in(now, name) == "unknown")
      text += fmt::format("{}{} is '{}' there, unknown here", text.empty() ? "" : "; ", name, value);
  }
  return text;
}

}  // namespace foretrain

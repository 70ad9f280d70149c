#include "execute/run_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "sim/base/quantile.hpp"

namespace foretrain {
namespace {

// Which ranks and how many of their steps belong to the first phase of a job; all where there is one only.
struct FirstPhase {
  int workers = std::numeric_limits<int>::max();
  std::size_t steps = std::numeric_limits<std::size_t>::max();
};

FirstPhase first_phase(const RunRecord& record) {
  const RunEvent* first = nullptr;
  for (const RunEvent& event : record.events) {
    if (event.what != "phase") continue;
    if (first != nullptr) return {first->workers, static_cast<std::size_t>(event.step - first->step)};
    first = &event;
  }
  return {};
}

}  // namespace

MeasuredStep measured_step(const RunRecord& record) {
  std::vector<double> steps;
  const FirstPhase first = first_phase(record);
  for (const RankRecord& rank : record.ranks) {
    if (rank.rank >= first.workers) continue;
    const std::vector<double>& own = rank.step.empty() ? rank.step_host : rank.step;
    const std::size_t count = std::min(own.size(), first.steps);
    if (steps.size() < count) steps.resize(count);
    for (std::size_t i = 0; i < count; ++i) steps[i] = std::max(steps[i], own[i]);
  }
  MeasuredStep out;
  out.steps = static_cast<int>(steps.size());
  if (steps.empty()) return out;
  std::sort(steps.begin(), steps.end());
  out.median = quantile(steps, 0.5);
  out.p05 = quantile(steps, 0.05);
  out.p95 = quantile(steps, 0.95);
  return out;
}

std::optional<SequencesRecord> sequences_of(const std::vector<RankRecord>& ranks,
                                            const std::string& batching) {
  SequencesRecord out;
  out.batching = batching;
  double useful = 0, padded = 0;
  std::vector<double> steps, compute;  // of the slowest rank
  for (const RankRecord& rank : ranks) {
    const std::size_t counted = std::min(rank.step.size(), rank.useful_units.size());
    steps.resize(std::max(steps.size(), counted));
    for (std::size_t i = 0; i < counted; ++i) {
      useful += rank.useful_units[i];
      padded += rank.padded_units[i];
      steps[i] = std::max(steps[i], rank.step[i]);
    }
    const std::size_t phases = std::min(rank.forward.size(), rank.backward.size());
    compute.resize(std::max(compute.size(), phases));
    for (std::size_t i = 0; i < phases; ++i)
      compute[i] = std::max(compute[i], rank.forward[i] + rank.backward[i]);
  }
  const double seconds = std::accumulate(steps.begin(), steps.end(), 0.0);
  if (padded <= 0 || seconds <= 0) return std::nullopt;
  out.padding = 1 - useful / padded;
  out.useful_per_second = useful / seconds;
  out.padded_per_second = padded / seconds;
  std::size_t seen = 0;
  for (const RankRecord& rank : ranks) {
    for (std::size_t i = 0; i < std::min(rank.forward.size(), rank.backward.size()); ++i, ++seen)
      out.waiting += compute[i] - (rank.forward[i] + rank.backward[i]);
  }
  if (seen > 0) out.waiting /= static_cast<double>(seen);
  return out;
}

std::string clock_text(const ClockRecord& clock) {
  std::string text = fmt::format("node {} device {}: {:.0f}", clock.node, clock.device, clock.sm_hz / 1e6);
  if (clock.sm_max_hz > 0) text += fmt::format(" of {:.0f}", clock.sm_max_hz / 1e6);
  text += " MHz";
  if (clock.power_watts > 0) text += fmt::format(", {:.0f} W", clock.power_watts);
  const std::string why = clock.throttle_reasons.empty()
                              ? "held back"
                              : fmt::format("{}", fmt::join(clock.throttle_reasons, ", "));
  return text + (clock.throttled > 0 ? fmt::format(", {} in {:.0f} % of {} samples", why,
                                                   clock.throttled * 100, clock.samples)
                                     : fmt::format(", {} samples", clock.samples));
}

}  // namespace foretrain

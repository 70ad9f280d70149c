#include "execute/run_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

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

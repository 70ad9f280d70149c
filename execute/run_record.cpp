#include "execute/run_record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/quantile.hpp"

namespace foretrain {

MeasuredStep measured_step(const RunRecord& record) {
  std::vector<double> steps;
  for (const RankRecord& rank : record.ranks) {
    const std::vector<double>& own = rank.step.empty() ? rank.step_host : rank.step;
    if (steps.size() < own.size()) steps.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) steps[i] = std::max(steps[i], own[i]);
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

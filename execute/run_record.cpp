#include "execute/run_record.hpp"

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

}  // namespace foretrain

#include "sim/training/overlap_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/quantile.hpp"
#include "sim/training/crowding.hpp"
#include "sim/training/step_simulation.hpp"

namespace foretrain {
namespace {

double simulated(const StepSimulation& simulation, double scale) {
  StepFactors factors = simulation.at_quantile(0.5);
  factors.compute_interference = scale;
  return simulation.seconds(factors);
}

// The step grows with the scale: bisection, to a thousandth of a per cent of the step.
double fitted_scale(const StepSimulation& simulation, double measured) {
  double low = 0, high = largest_interference_scale;
  if (simulated(simulation, low) >= measured) return low;
  if (simulated(simulation, high) <= measured) return high;
  while (high - low > 1e-3) {
    const double middle = (low + high) / 2;
    (simulated(simulation, middle) < measured ? low : high) = middle;
  }
  return (low + high) / 2;
}

// At the largest scale something else makes the step longer.
bool is_applied(const OverlapEntry& entry) {
  return entry.connected_first && entry.interference_scale >= 0 &&
         entry.interference_scale < largest_interference_scale;
}

}  // namespace

Scenario scenario_of_overlap(const OverlapEntry& entry, std::shared_ptr<const Profile> profile,
                             const ScenarioOfModel& scenario_of) {
  Scenario scenario = scenario_of(entry.model, entry.ranks, entry.sequence);
  scenario.profile = std::move(profile);
  scenario.step_times = nullptr;
  scenario.precision = entry.precision;
  scenario.batch_per_worker = entry.batch;
  scenario.batch_global = entry.batch * entry.ranks;
  scenario.strategy.kind = StrategyKind::ddp;
  return scenario;
}

Scenario one_worker_of(const OverlapEntry& entry, std::shared_ptr<const Profile> profile,
                       const ScenarioOfModel& scenario_of) {
  OverlapEntry alone = entry;
  alone.ranks = 1;
  Scenario scenario = scenario_of_overlap(alone, std::move(profile), scenario_of);
  scenario.strategy.kind = StrategyKind::independent;
  return scenario;
}

std::vector<std::string> fit_overlaps(Profile& profile, const ScenarioOfModel& scenario_of) {
  std::vector<std::string> problems;
  auto plain = std::make_shared<Profile>(profile);
  for (OverlapEntry& entry : plain->overlaps) entry.interference_scale = -1;
  for (OverlapEntry& entry : profile.overlaps) {
    entry.interference_scale = -1;
    try {
      const StepSimulation simulation(scenario_of_overlap(entry, plain, scenario_of));
      const double one = simulated(StepSimulation(one_worker_of(entry, plain, scenario_of)), 1);
      const double longer = entry.alone.median > 0 ? entry.step.median / entry.alone.median : 1;
      const double crowded = crowding_of(*plain, entry.model, entry.precision, entry.ranks).factor;
      entry.interference_scale = fitted_scale(simulation, one * crowded * longer);
    } catch (const Error& error) {
      problems.push_back(
          fmt::format("{} {} batch {} on {} GPUs: what interference is worth in a step was not fitted: {}",
                      entry.model, name_of(entry.precision), entry.batch, entry.ranks, error.what()));
    }
  }
  return problems;
}

double interference_scale(const Profile& profile, const std::string& model, Precision precision,
                          std::int64_t batch, int ranks) {
  int nearest = 0;
  std::vector<double> of_others;
  for (const OverlapEntry& entry : profile.overlaps) {
    if (!is_applied(entry) || entry.precision != precision) continue;
    of_others.push_back(entry.interference_scale);
    if (entry.model == model && (nearest == 0 || std::abs(entry.ranks - ranks) < std::abs(nearest - ranks)))
      nearest = entry.ranks;
  }
  if (of_others.empty()) return 1;
  if (nearest == 0) {
    std::sort(of_others.begin(), of_others.end());
    return quantile(of_others, 0.5);
  }
  std::map<std::int64_t, double> by_batch;
  for (const OverlapEntry& entry : profile.overlaps) {
    if (is_applied(entry) && entry.precision == precision && entry.model == model && entry.ranks == nearest)
      by_batch[entry.batch] = entry.interference_scale;
  }
  const auto above = by_batch.lower_bound(batch);
  if (above == by_batch.end()) return by_batch.rbegin()->second;
  if (above == by_batch.begin() || above->first == batch) return above->second;
  const auto below = std::prev(above);
  const double part = std::log(static_cast<double>(batch) / static_cast<double>(below->first)) /
                      std::log(static_cast<double>(above->first) / static_cast<double>(below->first));
  return below->second + part * (above->second - below->second);
}

}  // namespace foretrain

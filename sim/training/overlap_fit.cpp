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

double simulated(const StepSimulation& simulation, double StepFactors::*factor, double value) {
  StepFactors factors = simulation.at_quantile(0.5);
  factors.*factor = value;
  return simulation.seconds(factors);
}

// In [0, high]. The step grows with the factor: bisection, to high / 32,768.
double fitted(const StepSimulation& simulation, double StepFactors::*factor, double high, double measured) {
  double low = 0;
  if (simulated(simulation, factor, low) >= measured) return low;
  if (simulated(simulation, factor, high) <= measured) return high;
  for (int halving = 0; halving < 15; ++halving) {
    const double middle = (low + high) / 2;
    (simulated(simulation, factor, middle) < measured ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Of the profile's overlap entry `which`, with no other applied: the least seconds, up to `measured`, by
// which each collective after a pause begins later, with which the step is as long as measured. What is
// missing is mostly enough, where the last collective waits; far beyond it the first ones end so late that
// the last has no pause before it.
double fitted_wait(Profile profile, std::size_t which, const ScenarioOfModel& scenario_of, double measured) {
  OverlapEntry& entry = profile.overlaps[which];
  entry.interference_scale = 1;
  entry.collective_wait = measured;
  entry.connected_first = true;
  const StepSimulation simulation(
      scenario_of_overlap(entry, std::make_shared<Profile>(std::move(profile)), scenario_of));
  constexpr auto factor = &StepFactors::collective_wait;
  double most = std::max(0.0, 1 - simulated(simulation, factor, 0) / measured);
  while (most > 0 && most < 1 && simulated(simulation, factor, most) < measured)
    most = std::min(1.0, 2 * most);
  return measured * fitted(simulation, factor, most, measured);
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
  for (std::size_t i = 0; i < profile.overlaps.size(); ++i) {
    OverlapEntry& entry = profile.overlaps[i];
    entry.interference_scale = -1;
    entry.collective_wait = 0;
    try {
      const StepSimulation simulation(scenario_of_overlap(entry, plain, scenario_of));
      const StepSimulation alone(one_worker_of(entry, plain, scenario_of));
      const double one = alone.seconds(alone.at_quantile(0.5));
      const double longer = entry.alone.median > 0 ? entry.step.median / entry.alone.median : 1;
      const double crowded = crowding_of(*plain, entry.model, entry.precision, entry.ranks).factor;
      const double measured = one * crowded * longer;
      entry.interference_scale =
          fitted(simulation, &StepFactors::compute_interference, largest_interference_scale, measured);
      if (entry.interference_scale < largest_interference_scale || simulation.collectives().empty()) continue;
      entry.collective_wait = fitted_wait(*plain, i, scenario_of, measured);
      entry.interference_scale = 1;
    } catch (const Error& error) {
      problems.push_back(
          fmt::format("{} {} batch {} on {} ranks: what interference is worth in a step was not fitted: {}",
                      entry.model, name_of(entry.precision), entry.batch, entry.ranks, error.what()));
    }
  }
  return problems;
}

OverlapCost overlap_cost(const Profile& profile, const std::string& model, Precision precision,
                         std::int64_t batch, int ranks) {
  int nearest = 0;
  std::vector<double> scales, waits;
  for (const OverlapEntry& entry : profile.overlaps) {
    if (!is_applied(entry) || entry.precision != precision) continue;
    scales.push_back(entry.interference_scale);
    waits.push_back(entry.collective_wait);
    if (entry.model == model && (nearest == 0 || std::abs(entry.ranks - ranks) < std::abs(nearest - ranks)))
      nearest = entry.ranks;
  }
  if (scales.empty()) return {};
  if (nearest == 0) return {median(std::move(scales)), median(std::move(waits))};
  std::map<std::int64_t, OverlapCost> by_batch;
  for (const OverlapEntry& entry : profile.overlaps) {
    if (is_applied(entry) && entry.precision == precision && entry.model == model && entry.ranks == nearest)
      by_batch[entry.batch] = {entry.interference_scale, entry.collective_wait};
  }
  const auto above = by_batch.lower_bound(batch);
  if (above == by_batch.end()) return by_batch.rbegin()->second;
  if (above == by_batch.begin() || above->first == batch) return above->second;
  const auto below = std::prev(above);
  const double part = std::log(static_cast<double>(batch) / static_cast<double>(below->first)) /
                      std::log(static_cast<double>(above->first) / static_cast<double>(below->first));
  const OverlapCost &low = below->second, &high = above->second;
  return {low.interference_scale + part * (high.interference_scale - low.interference_scale),
          low.collective_wait + part * (high.collective_wait - low.collective_wait)};
}

}  // namespace foretrain

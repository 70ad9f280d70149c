#include "sim/training/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/training/memory.hpp"
#include "sim/training/remedies.hpp"
#include "sim/training/sensitivity.hpp"
#include "sim/training/step_simulation.hpp"
#include "sim/training/verdict.hpp"

namespace foretrain {
namespace {

// The baseline of scaling: no communication.
double one_worker_step(const Scenario& scenario, const StepSimulation& simulation) {
  const StepSimulation one =
      simulation.changed(scenario, {.workers = 1, .strategy = StrategyKind::independent});
  return one.seconds(one.at_quantile(0.5));
}

// Single steps: the step is a monotone function of the slowest rank's draw, so that quantiles map to
// quantiles.
void spread_of_steps(const StepSimulation& simulation, StepPrediction& step) {
  step.p05 = simulation.seconds(simulation.at_quantile(0.05));
  step.p95 = simulation.seconds(simulation.at_quantile(0.95));
  if (step.p05 == step.p95) {
    step.mean = step.p50;
    return;
  }
  constexpr std::array quantiles{0.1, 0.3, 0.5, 0.7, 0.9};
  double sum = 0;
  for (double quantile : quantiles) sum += simulation.seconds(simulation.at_quantile(quantile));
  step.mean = sum / static_cast<double>(quantiles.size());
}

// 90 % interval of the median: the doubts of device, host and network times, each replayed, added in
// quadrature.
void interval_of_median(const StepSimulation& simulation, const StepFactors& median, StepPrediction& step) {
  double communication = 0, weight = 0;
  for (const CollectiveUse& use : simulation.collectives()) {
    const double seconds = use.cost.time.in_seconds();
    communication += seconds * use.cost.relative_uncertainty;
    weight += seconds;
  }
  if (weight > 0) communication /= weight;
  const StepTimes& times = simulation.times();
  double above = 0, below = 0;
  auto add = [&](double doubt, double StepFactors::*factor) {
    if (doubt <= 0) return;
    StepFactors more = median, less = median;
    more.*factor *= 1 + doubt;
    less.*factor *= std::max(0.0, 1 - doubt);
    above += std::pow(std::max(0.0, simulation.seconds(more) - step.p50), 2);
    below += std::pow(std::max(0.0, step.p50 - simulation.seconds(less)), 2);
  };
  add(times.device_uncertainty, &StepFactors::device);
  add(times.host_uncertainty, &StepFactors::host);
  add(communication, &StepFactors::communication);
  step.low = step.p50 - std::sqrt(below);
  step.high = step.p50 + std::sqrt(above);
}

void fill_links(const Scenario& scenario, const StepSimulation& simulation, double step, Result& result) {
  std::map<std::string, double> bytes;
  for (const CollectiveUse& use : simulation.collectives()) {
    for (const WireUse& wire : use.cost.wire) bytes[wire.link_class] += wire.bytes;
  }
  const Topology& topology = scenario.cluster.topology;
  std::vector<LinkUse> by_class(topology.link_classes.size());
  for (const Link& link : topology.links) {
    LinkUse& use = by_class[static_cast<std::size_t>(link.link_class)];
    ++use.count;
    const double rate = link.rate.bytes_per_second() * link.efficiency;
    if (use.count == 1 || rate < use.bandwidth) use.bandwidth = rate;
  }
  std::map<std::string, LinkUse> classes;
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    by_class[c].name = topology.link_classes.name(static_cast<int>(c));
    if (by_class[c].count > 0) classes.emplace(by_class[c].name, by_class[c]);
  }
  for (auto& [name, use] : classes) {
    const auto found = bytes.find(name);
    use.bytes_per_step = found == bytes.end() ? 0 : found->second;
    use.utilisation = use.bandwidth > 0 ? std::min(1.0, use.bytes_per_step / use.bandwidth / step) : 0;
    result.links.push_back(use);
  }
}

void fill_memory(const Scenario& scenario, Result& result) {
  const Model& model = *scenario.model;
  const Precision gradients = scenario.strategy.gradients;
  const int parts = scenario.strategy.accumulation;  // a micro-batch is on the device at a time
  result.memory = estimate_memory(model, std::max<std::int64_t>(1, scenario.batch_per_worker / parts),
                                  scenario.precision, gradients, scenario.optimizer, scenario.profile.get())
                      .memory;
  if (result.memory.fits) return;
  const std::int64_t most =
      parts * largest_batch(model, scenario.precision, gradients, scenario.optimizer, *scenario.profile);
  result.warnings.push_back(fmt::format(
      "does not fit: the step needs {:.1f} GB of {:.1f} GB a GPU{}", result.memory.peak / 1e9,
      result.memory.capacity / 1e9,
      most > 0 ? fmt::format("; the largest batch a worker that fits is {}", most) : std::string()));
}

}  // namespace

StepPrediction predict_step(const Scenario& scenario, const StepChange& change,
                            std::shared_ptr<const CollectiveModel>& network) {
  const StepSimulation simulation(scenario, change, network);
  if (simulation.network()) network = simulation.network();
  const StepFactors median = simulation.at_quantile(0.5);
  const StepOutcome outcome = simulation.run(median);
  StepPrediction step;
  step.time = step.p50 = outcome.seconds;
  step.breakdown = outcome.use.breakdown;
  spread_of_steps(simulation, step);
  interval_of_median(simulation, median, step);
  step.events = simulation.events();
  return step;
}

Result predict(const Scenario& scenario, const PredictOptions& options) {
  const StepSimulation simulation(scenario);
  if (options.network != nullptr) *options.network = simulation.network();
  const StepFactors median = simulation.at_quantile(0.5);
  const StepOutcome outcome = simulation.run(median);
  if (options.timeline != nullptr) {
    options.timeline->title = scenario.name;
    simulation.fill(*options.timeline, outcome);
  }

  Result result;
  result.scenario = scenario.name;
  result.seed = options.seed;
  result.inputs = scenario.inputs;
  result.model = scenario.model ? scenario.model->name : "gradients";
  for (const std::string& name : scenario.profile_names)
    result.profile += (result.profile.empty() ? "" : " + ") + name;
  result.precision = name_of(scenario.precision);
  result.strategy = name_of(scenario.strategy.kind);
  result.topology = scenario.cluster.family;
  result.unit = scenario.model ? scenario.model->unit : "samples";
  result.workers = simulation.workers();
  result.nodes = scenario.cluster.topology.nodes;
  result.batch_global = scenario.batch_global;
  result.batch_per_worker = scenario.batch_per_worker;

  StepPrediction& step = result.step;
  step.time = step.p50 = outcome.seconds;
  step.breakdown = outcome.use.breakdown;
  spread_of_steps(simulation, step);
  interval_of_median(simulation, median, step);

  result.samples_per_second = static_cast<double>(scenario.batch_global) / step.mean;
  result.units_per_second = result.samples_per_second;
  const double one = result.workers == 1 ? step.time : one_worker_step(scenario, simulation);
  result.speedup = one * result.workers / step.time;
  result.efficiency = one / step.time;

  Communication& communication = result.communication;
  for (const CollectiveUse& use : simulation.collectives()) {
    const bool carries_weights = use.kind == CollectiveKind::broadcast;
    if (!carries_weights) communication.bytes_per_worker += static_cast<double>(use.bytes.count());
  }
  communication.collectives = static_cast<int>(simulation.collectives().size());
  communication.busy = outcome.use.collective_running;
  communication.exposed = step.breakdown.exposed_communication;
  communication.overlap =
      communication.busy > 0 ? std::max(0.0, 1 - communication.exposed / communication.busy) : 0;

  fill_links(scenario, simulation, step.time, result);
  result.limiting = limiting_of(scenario, simulation, median, outcome, result.links);
  if (options.remedies) {
    result.remedies = remedies_of(scenario, simulation, step.time);
    result.break_even = break_even_of(scenario, simulation);
    result.sensitivity = sensitivity_of(scenario, simulation, step.time);
  }
  result.gpu.busy = outcome.use.busy / step.time;
  result.gpu.computing = outcome.use.computing / step.time;
  result.gpu.communicating = outcome.use.communicating / step.time;
  result.gpu.launches = simulation.launches();

  result.warnings = scenario.warnings;
  result.warnings.insert(result.warnings.end(), simulation.warnings().begin(), simulation.warnings().end());
  if (options.timeline != nullptr &&
      static_cast<std::size_t>(result.workers) > StepSimulation::most_traced_ranks) {
    result.warnings.push_back(
        fmt::format("the trace shows the first {} of {} ranks, and one of each other kind",
                    StepSimulation::most_traced_ranks, result.workers));
  }
  result.extrapolated = simulation.times().extrapolated;
  for (const CollectiveUse& use : simulation.collectives()) {
    if (!use.cost.extrapolated) continue;
    const Extrapolation entry{name_of(use.kind), fmt::format("{} bytes", use.bytes.count()), use.cost.range};
    const bool known =
        std::any_of(result.extrapolated.begin(), result.extrapolated.end(),
                    [&](const auto& e) { return e.what == entry.what && e.asked == entry.asked; });
    if (!known) result.extrapolated.push_back(entry);
  }
  if (scenario.model && scenario.profile) fill_memory(scenario, result);
  result.events = simulation.events();
  return result;
}

}  // namespace foretrain

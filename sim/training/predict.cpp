#include "sim/training/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/base/parse_units.hpp"
#include "sim/base/quantile.hpp"
#include "sim/input/sequence_lengths.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/training/execution_rule.hpp"
#include "sim/training/gpu_types.hpp"
#include "sim/training/memory.hpp"
#include "sim/training/prediction_kind.hpp"
#include "sim/training/remedies.hpp"
#include "sim/training/sensitivity.hpp"
#include "sim/training/step_simulation.hpp"
#include "sim/training/unequal_lengths.hpp"
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

// What kernels lose beside collectives is known to about half: on two GPUs it was 1.0 to 2.1 times what
// calibration's own overlapped steps told (validation/live-gpu, rows within a node). So is how long ranks
// wait for each other, which those steps tell too.
constexpr double doubt_of_interference = 0.5;

// No doubt makes a time shorter than this part of it.
constexpr double least_share = 0.05;

// 90 % interval of the median: the doubts of device, host and network times, of interference and of waiting,
// each replayed, added in quadrature. Two of one and the same time may take more from it in quadrature than
// there is: then it begins at the step with all doubts at their fast ends at once.
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
  StepFactors fastest = median;
  auto add_sides = [&](double slower, double faster, double StepFactors::*factor) {
    if (slower <= 0 && faster <= 0) return;
    StepFactors more = median, less = median;
    more.*factor *= 1 + slower;
    const double share = std::max(least_share, 1 - faster);
    less.*factor *= share;
    fastest.*factor *= share;
    above += std::pow(std::max(0.0, simulation.seconds(more) - step.p50), 2);
    below += std::pow(std::max(0.0, step.p50 - simulation.seconds(less)), 2);
  };
  const auto add = [&](double doubt, double StepFactors::*factor) {
    if (doubt > 0) add_sides(doubt, doubt, factor);
  };
  add_sides(times.device_uncertainty, std::max(times.device_uncertainty, times.device_faster),
            &StepFactors::device);
  add_sides(simulation.crowding().slower, simulation.crowding().faster, &StepFactors::device);
  add_sides(times.host_slower, times.host_faster, &StepFactors::host);
  add_sides(simulation.contention().slower, simulation.contention().faster, &StepFactors::host);
  add(communication, &StepFactors::communication);
  const auto interferes = [](const CollectiveUse& use) { return use.beside.compute > 1; };
  if (std::any_of(simulation.collectives().begin(), simulation.collectives().end(), interferes))
    add(doubt_of_interference, &StepFactors::compute_interference);
  if (simulation.ranks_wait()) add(doubt_of_interference, &StepFactors::collective_wait);
  step.low = step.p50 - std::sqrt(below);
  if (step.low < least_share * step.p50)
    step.low = std::min(step.p50, std::max(step.low, simulation.seconds(fastest)));
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
  const Precision gradients = scenario.strategy.gradients;
  const int parts = scenario.strategy.accumulation;  // a micro-batch is on the device at a time
  const auto memory_on = [&](const std::shared_ptr<const Profile>& profile) {
    return shared_memory_estimate(scenario.model,
                                  std::max<std::int64_t>(1, scenario.batch_per_worker / parts),
                                  scenario.precision, gradients, scenario.optimizer, profile)
        .memory;
  };
  std::shared_ptr<const Profile> least = scenario.profile;
  result.memory = memory_on(least);
  if (scenario.gpu_types) {  // a step must fit on each type of GPU
    for (const auto& profile : scenario.gpu_types->profiles) {
      if (!result.memory.fits) break;
      const Memory memory = memory_on(profile);
      if (memory.fits) continue;
      result.memory = memory;
      least = profile;
    }
  }
  if (result.memory.fits) return;
  const std::int64_t most =
      parts * largest_batch(*scenario.model, scenario.precision, gradients, scenario.optimizer, *least);
  result.warnings.push_back(fmt::format(
      "does not fit: the step needs {:.1f} GB of {:.1f} GB a {}{}", result.memory.peak / 1e9,
      result.memory.capacity / 1e9,
      workers_are_cpus(scenario.cluster.topology, scenario.profile.get()) ? "worker" : "GPU",
      most > 0 ? fmt::format("; the largest batch a worker that fits is {}", most) : std::string()));
}

// What a table's rows cost against the whole table, both simulated.
std::string sparse_verdict(const Scenario& scenario, const StepSimulation& simulation, double step) {
  Scenario dense = scenario;
  dense.strategy.fusion.embedding = EmbeddingGradient::dense;
  const StepSimulation other(dense, {}, simulation.network());
  const double seconds = other.seconds(other.at_quantile(0.5));
  double gathered = 0, whole = 0;
  std::string since;
  for (const Bucket& bucket : simulation.buckets()) {
    if (!bucket.is_sparse()) continue;
    const std::int64_t batch = scenario.batch_per_worker;
    const auto p = static_cast<std::size_t>(bucket.parameters.front());
    const double own = static_cast<double>(bucket.sparse_bytes(batch).count());
    gathered += own * simulation.workers();
    const double table = static_cast<double>(scenario.model->parameters[p].elements) *
                         static_cast<double>(element_bytes(scenario.strategy.gradients));
    whole += table;
    // A rank receives (n - 1) / n of what is gathered, and twice that of what is reduced.
    since = fmt::format("{:.0f}", std::max(2.0, std::ceil(2 * table / std::max(1.0, own))));
  }
  constexpr double nothing = 0.005;  // of the step
  const char* verdict = std::abs(seconds / step - 1) < nothing ? "makes no difference"
                        : seconds < step                       ? "pays"
                                                               : "does not pay";
  return fmt::format(
      "Every rank gathers {} of embedding rows a step, which grows with the ranks; all-reducing the dense "
      "gradient of {} would take {} a step: densifying {} ({:+.1f} %), and by bytes pays from {} ranks on.",
      format_bytes(gathered), format_bytes(whole), format_time(seconds), verdict, 100 * (seconds / step - 1),
      since);
}

Result predict_alike(const Scenario& scenario, const PredictOptions& options, const Scenario& given);

// As above, of a worker that shares its host with no other.
double one_worker_step(const Scenario& given) {
  const ExecutedScenario alone(given, 1);
  const StepSimulation one(*alone, {.workers = 1, .strategy = StrategyKind::independent});
  return one.seconds(one.at_quantile(0.5));
}

StepPrediction predict_alike_step(const Scenario& scenario, const StepChange& change,
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

// Steps of the draws, by their median; and which of them is the median one.
struct DrawnSteps {
  std::vector<StepPrediction> steps;
  std::size_t median = 0;
  double mean = 0, p05 = 0, p95 = 0;
};

DrawnSteps drawn_steps(const UnequalSteps& unequal, const StepChange& change,
                       std::shared_ptr<const CollectiveModel>& network) {
  DrawnSteps out;
  std::vector<double> medians, lows, highs;
  std::map<std::vector<std::int64_t>, std::size_t> seen;  // the first draw of these rows
  for (const LengthDraw& draw : unequal.drawn().draws) {
    const auto [first, is_new] = seen.emplace(draw.rows, out.steps.size());
    out.steps.push_back(is_new ? predict_alike_step(unequal.scenario_of(draw), change, network)
                               : out.steps[first->second]);
    out.mean += out.steps.back().mean / unequal.draws();
    medians.push_back(out.steps.back().p50);
    lows.push_back(out.steps.back().p05);
    highs.push_back(out.steps.back().p95);
  }
  const double middle = median(medians);
  for (std::size_t i = 0; i < medians.size(); ++i)
    if (std::fabs(medians[i] - middle) < std::fabs(medians[out.median] - middle)) out.median = i;
  std::sort(lows.begin(), lows.end());
  std::sort(highs.begin(), highs.end());
  out.p05 = quantile(lows, 0.05);
  out.p95 = quantile(highs, 0.95);
  return out;
}

int workers_of(const Scenario& scenario, const StepChange& change) {
  return change.workers > 0 ? change.workers : static_cast<int>(scenario.cluster.topology.workers.size());
}

std::string lengths_verdict(const SequenceUse& use, double step, bool on_cpus) {
  const std::string share = fmt::format("{:.0f} % of all positions are padding", 100 * use.padding);
  if (use.batching == "pad_global")
    return fmt::format(
        "{}: rows of one length keep the {} in balance, at the price of computing what the loss does not "
        "count; "
        "and where padding is counted, it harms learning.",
        share, on_cpus ? "workers" : "GPUs");
  const std::string waits =
      fmt::format("the mean {} waits {} of {} for those with longer rows", on_cpus ? "worker" : "GPU",
                  format_time(use.waiting), format_time(step));
  if (use.batching == "bucketed")
    return fmt::format(
        "{}; {}: each worker draws a bucket of its own. One bucket for all workers of a step would "
        "balance them.",
        share, waits);
  return use.batching == "packed" ? share + ": rows are filled with several samples."
                                  : share + "; " + waits + ".";
}

Result predict_unequal(const Scenario& scenario, const PredictOptions& options) {
  const int workers = workers_of(scenario, {});
  const UnequalSteps unequal(scenario, scenario.batch_per_worker, workers, options.seed);
  std::shared_ptr<const CollectiveModel> network;
  const DrawnSteps drawn = drawn_steps(unequal, {}, network);
  const Scenario made = unequal.scenario_of(unequal.drawn().draws[drawn.median]);
  Result result = predict_alike(made, options, made);
  result.step.mean = drawn.mean;
  result.step.p05 = drawn.p05;
  result.step.p95 = drawn.p95;
  // Memory is that of the longest row that may come.
  result.memory = {};
  std::erase_if(result.warnings, [](const std::string& text) { return text.starts_with("does not fit"); });
  fill_memory(scenario, result);

  const DrawnLengths& lengths = unequal.drawn();
  SequenceUse use;
  use.batching = name_of(scenario.lengths->batching);
  use.useful_length = lengths.useful;
  use.row_length = lengths.padded;
  use.padding = 1 - lengths.useful / lengths.padded;
  const double streams =
      static_cast<double>(scenario.model->units_per_sample()) / static_cast<double>(scenario.model->sequence);
  const double rows = static_cast<double>(scenario.batch_per_worker) * workers / drawn.mean;
  use.padded_per_second = rows * streams * lengths.padded;
  use.useful_per_second = rows * streams * lengths.useful;
  for (const LengthDraw& draw : lengths.draws) use.waiting += unequal.waiting(draw) / unequal.draws();
  result.samples_per_second = rows * lengths.samples_a_row;
  result.units_per_second = use.useful_per_second;
  result.limiting.text +=
      " " + lengths_verdict(use, result.step.time,
                            workers_are_cpus(scenario.cluster.topology, scenario.profile.get()));
  result.sequences = std::move(use);
  return result;
}

}  // namespace

StepPrediction predict_step(const Scenario& scenario, const StepChange& change,
                            std::shared_ptr<const CollectiveModel>& network) {
  const int workers = workers_of(scenario, change);
  const ExecutedScenario executed(scenario, workers);
  if (!(*executed).lengths) return predict_alike_step(*executed, change, network);
  constexpr std::uint64_t seed = 1;
  const UnequalSteps unequal(*executed, change.batch_per_worker.value_or(scenario.batch_per_worker), workers,
                             seed);
  DrawnSteps drawn = drawn_steps(unequal, change, network);
  StepPrediction step = drawn.steps[drawn.median];
  step.mean = drawn.mean;
  step.p05 = drawn.p05;
  step.p95 = drawn.p95;
  return step;
}

Result predict(const Scenario& scenario, const PredictOptions& options) {
  const ExecutedScenario executed(scenario, workers_of(scenario, {}));
  Result result =
      (*executed).lengths ? predict_unequal(*executed, options) : predict_alike(*executed, options, scenario);
  result.kind = kind_of(scenario);
  return result;
}

namespace {

// `given`: before its host and execution were taken into account.
Result predict_alike(const Scenario& scenario, const PredictOptions& options, const Scenario& given) {
  const StepSimulation simulation(scenario);
  if (options.network != nullptr) *options.network = simulation.network();
  const StepFactors median = simulation.at_quantile(0.5);
  const StepOutcome outcome =
      simulation.run(median, options.timeline != nullptr ? Slices::all : Slices::slowest);
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
  result.units_per_second = result.samples_per_second *
                            static_cast<double>(scenario.model ? scenario.model->units_per_sample() : 1);
  const bool shares_host = launching_factor(given, result.workers) != 1;
  const double one = result.workers == 1 ? step.time
                     : shares_host       ? one_worker_step(given)
                                         : one_worker_step(scenario, simulation);
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
  if (scenario.strategy.fusion.embedding != EmbeddingGradient::dense && result.workers > 1)
    result.limiting.text += " " + sparse_verdict(scenario, simulation, step.time);
  if (options.remedies) {
    result.remedies = remedies_of(scenario, simulation, step.time);
    result.break_even = break_even_of(scenario, simulation);
    result.sensitivity = sensitivity_of(scenario, simulation, step.time);
  }
  result.gpu.busy = outcome.use.busy / step.time;
  result.gpu.computing = outcome.use.computing / step.time;
  result.gpu.communicating = outcome.use.communicating / step.time;
  if (scenario.step_times) {
    result.gpu.launches = scenario.step_times->launches;
  } else {
    result.gpu.launches = simulation.launches();
    result.gpu.launching = simulation.launching();
  }

  result.warnings = scenario.warnings;
  if (scenario.execution.deterministic)
    result.warnings.emplace_back("deterministic: has no effect on the prediction yet; run obeys it");
  result.warnings.insert(result.warnings.end(), simulation.warnings().begin(), simulation.warnings().end());
  if (options.timeline != nullptr &&
      static_cast<std::size_t>(result.workers) > StepSimulation::most_traced_ranks) {
    result.warnings.push_back(
        fmt::format("the trace shows the first {} of {} ranks, and one of each other kind",
                    StepSimulation::most_traced_ranks, result.workers));
  }
  result.extrapolated = simulation.times().extrapolated;
  for (const StepTimes& times : simulation.other_times()) {
    result.extrapolated.insert(result.extrapolated.end(), times.extrapolated.begin(),
                               times.extrapolated.end());
  }
  for (const CollectiveUse& use : simulation.collectives()) {
    if (!use.cost.extrapolated) continue;
    const Extrapolation entry{name_of(use.kind), fmt::format("{} bytes", use.bytes.count()), use.cost.range};
    const bool known =
        std::any_of(result.extrapolated.begin(), result.extrapolated.end(),
                    [&](const auto& e) { return e.what == entry.what && e.asked == entry.asked; });
    if (!known) result.extrapolated.push_back(entry);
  }
  // Of a trace the shapes of activations are not known.
  const bool knows_shapes = scenario.model && !scenario.model->input.empty();
  if (knows_shapes && scenario.profile) fill_memory(scenario, result);
  result.events = simulation.events();
  return result;
}

}  // namespace

}  // namespace foretrain

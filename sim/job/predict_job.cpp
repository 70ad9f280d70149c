#include "sim/job/predict_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/parse_units.hpp"
#include "sim/base/quantile.hpp"
#include "sim/job/host_cores.hpp"
#include "sim/job/input_remedies.hpp"
#include "sim/job/input_supply.hpp"
#include "sim/job/target.hpp"
#include "sim/job/timeline.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/training/sensitivity.hpp"

namespace foretrain {
namespace {

const char* const equal_epochs = "equal epochs, accuracy not predicted";

const char* name_of(SamplesLaw::Kind kind) {
  switch (kind) {
    case SamplesLaw::Kind::fixed_epochs:
      return "fixed_epochs";
    case SamplesLaw::Kind::critical_batch:
      return "critical_batch";
    case SamplesLaw::Kind::gradient_noise:
      return "gradient_noise";
  }
  return "";
}

class JobPredictor {
 public:
  // `job` and `input` in place of the scenario's own; all of them outlive this.
  JobPredictor(const Scenario& scenario, const Job& job, const InputPipeline* input, StepShapes& shapes,
               const JobOptions& options)
      : job_(job) {
    in_.schedule = schedule_input(scenario);
    in_.schedule.job = &job;
    in_.input = input;
    in_.shapes = &shapes;
    in_.checkpoint_bytes = checkpoint_bytes(scenario);
    in_.gpus_per_node = std::max(1, scenario.cluster.topology.gpus_per_node);
    in_.seed = options.seed;
    in_.every_step = options.every_step;
    in_.noise = options.noise;
  }

  JobPrediction predict() {
    if (job_.workers.budget) fit_budget(*job_.workers.budget);
    simulate();
    const Job& job = job_;
    if (job.price) {
      out_.cost = out_.gpu_hours * job.price->per_gpu_hour;
      out_.currency = job.price->currency;
      out_.price_date = job.price->date;
    }
    if (job.power) out_.energy = out_.gpu_hours * 3600 * *job.power;
    if (job.checkpoint) out_.checkpoint_bytes = in_.checkpoint_bytes;
    out_.samples_law = name_of(job.samples.kind);
    out_.origin = Origin::assumed;
    if (job.samples.kind == SamplesLaw::Kind::fixed_epochs) out_.assumption = equal_epochs;
    if (job.samples.kind == SamplesLaw::Kind::critical_batch) {
      out_.assumption = fmt::format(
          "the samples a batch costs follow (S/Smin - 1)(E/Emin - 1) = 1 with a critical "
          "batch of {:g}, given",
          job.samples.scale);
    }
    if (job.samples.kind == SamplesLaw::Kind::gradient_noise) {
      out_.assumption = fmt::format(
          "the samples a batch costs follow from a gradient noise scale of {:g}, given", job.samples.scale);
    }
    if (job.curve && job.target) out_.target = time_to_target(*job.curve, *job.target, out_);
    add_answers(job);
    out_.events += in_.shapes->events();
    return std::move(out_);
  }

 private:
  // Draws of the failures until the events are enough; one where there are none.
  void simulate() {
    constexpr int most_draws = 16;
    constexpr std::uint64_t enough_events = 400'000;
    const bool is_random = job_.failures.has_value();
    std::vector<double> totals;
    std::uint64_t events = 0;
    double failures = 0, restarting = 0, failing = 0, below = 0, above = 0;
    for (int draw = 0; draw < (is_random ? most_draws : 1); ++draw) {
      in_.draw = static_cast<std::uint64_t>(draw);
      JobTimeline one = simulate_timeline(in_);
      out_.events += one.events;
      events += one.events;
      totals.push_back(one.total.in_seconds());
      failing += one.failing.in_seconds();
      restarting += one.restarting;
      failures += static_cast<double>(one.failures);
      out_.gpu_hours += one.gpu_seconds / 3600;
      out_.training += one.parts.training.in_seconds();
      out_.input += one.parts.input.in_seconds();
      out_.evaluation += one.parts.evaluation.in_seconds();
      out_.checkpoint += one.parts.checkpoint.in_seconds();
      out_.startup += one.parts.startup.in_seconds();
      out_.rescale += one.parts.rescale.in_seconds();
      out_.logging += one.parts.logging.in_seconds();
      out_.adaptation += one.parts.adaptation.in_seconds();
      below += one.below;
      above += one.above;
      if (draw == 0) {
        out_.updates = one.updates;
        out_.samples = one.samples;
        out_.epochs = one.epochs;
        out_.phases = std::move(one.phases);
        out_.progress = std::move(one.progress);
      }
      if (events > enough_events) break;
    }
    const auto draws = static_cast<double>(totals.size());
    for (double* part : {&out_.gpu_hours, &out_.training, &out_.input, &out_.evaluation, &out_.checkpoint,
                         &out_.startup, &out_.rescale, &out_.logging, &out_.adaptation}) {
      *part /= draws;
    }
    out_.failing = failing / draws;
    for (double total : totals) out_.time += total / draws;
    std::sort(totals.begin(), totals.end());
    const double luck_below = out_.time - quantile(totals, 0.05),
                 luck_above = quantile(totals, 0.95) - out_.time;
    out_.low = out_.time - std::hypot(below / draws, luck_below);
    out_.high = out_.time + std::hypot(above / draws, luck_above);
    if (is_random) {
      out_.failures = JobFailures{failures / draws, std::max(0.0, (failing - restarting) / draws),
                                  restarting / draws, static_cast<int>(totals.size())};
    }
  }

  // The largest number of workers at which the job's GPU-hours stay within the budget.
  void fit_budget(double budget) {
    auto hours = [&](int workers) {
      in_.schedule.budget_workers = workers;
      in_.draw = 0;
      return simulate_timeline(in_).gpu_seconds / 3600;
    };
    int good = 0, bad = in_.schedule.available + 1;
    while (bad - good > 1) {
      const int middle = good + (bad - good) / 2;
      (hours(middle) <= budget ? good : bad) = middle;
    }
    in_.schedule.budget_workers = std::max(1, good);
    out_.answers.push_back(
        good > 0 ? fmt::format("The budget of {:g} GPU-hours pays for {} worker{} at most.", budget, good,
                               good == 1 ? "" : "s")
                 : fmt::format(
                       "The budget of {:g} GPU-hours does not pay for the job on one worker, which is shown.",
                       budget));
  }

  std::string money(double gpu_hours) const {
    const auto& price = job_.price;
    return price ? fmt::format(" and {:.2f} {}", gpu_hours * price->per_gpu_hour, price->currency) : "";
  }

  // What more of the last phase costs, and on the curve what it gains.
  void add_answers(const Job& job) {
    if (out_.phases.empty() || out_.updates == 0) return;
    const JobPhase& last = out_.phases.back();
    const double updates =
        out_.updates >= 20'000 ? 10'000 : std::max(1.0, std::round(static_cast<double>(out_.updates) / 5));
    const double seconds = updates * last.step;
    auto hours = [&](double s) { return s * last.workers / 3600; };
    out_.answers.push_back(fmt::format("The next {:.0f} updates take {}{}.", updates, format_time(seconds),
                                       money(hours(seconds))));
    if (!job.curve) return;
    const double an_epoch = out_.updates / std::max(1e-9, out_.epochs);
    const double slope = slope_at_end(*job.curve, static_cast<double>(out_.updates), out_.epochs, an_epoch);
    const bool improves = job.curve->is_accuracy ? slope > 0 : slope < 0;
    const char* what = job.curve->is_accuracy ? "accuracy" : "loss";
    if (!improves) {
      out_.answers.push_back(fmt::format("The curve's {} no longer improves at its end.", what));
      return;
    }
    const double needed = 0.01 / std::fabs(slope);
    const double end = job.curve->by_epochs ? out_.epochs : static_cast<double>(out_.updates);
    const bool ends_before = std::any_of(job.curve->runs.begin(), job.curve->runs.end(),
                                         [&](const auto& points) { return points.back().first > end; });
    out_.answers.push_back(fmt::format("At the {} end 0.01 of {} costs {:.0f} updates: {}{}.",
                                       ends_before ? "job's" : "curve's", what, needed,
                                       format_time(needed * last.step), money(hours(needed * last.step))));
  }

  const Job& job_;
  JobTimelineInput in_;
  JobPrediction out_;
};

// The first phase held throughout at its workers.
Job first_phase_of(const Scenario& scenario) {
  Job job = *scenario.job;
  const ScheduleInput input = schedule_input(scenario);
  const ScheduleCursor cursor(input);
  SchedulePhase phase;
  phase.batch = cursor.run().batch;
  phase.workers = cursor.run().workers;
  if (job.schedule && !job.schedule->phases.empty())
    phase.learning_rate = job.schedule->phases[0].learning_rate;
  job.schedule.emplace();
  job.schedule->phases = {phase};
  job.workers = {};
  job.baseline = nullptr;
  return job;
}

JobSpeedup speedup_over(const JobPrediction& baseline, const std::string& name, const JobPrediction& job) {
  JobSpeedup out;
  out.baseline = name;
  auto ratio = [](double a, double b) { return b > 0 ? a / b : 1; };
  out.time = ratio(baseline.time, job.time);
  out.updates = ratio(static_cast<double>(baseline.updates), static_cast<double>(job.updates));
  out.gpu_hours = ratio(baseline.gpu_hours, job.gpu_hours);
  if (baseline.cost && job.cost && baseline.currency == job.currency)
    out.cost = ratio(*baseline.cost, *job.cost);
  return out;
}

// The input with as many cores to decode as the scenario's host leaves.
std::optional<InputPipeline> input_on_its_host(const Scenario& scenario, const CoreNeed& need) {
  if (!scenario.input) return std::nullopt;
  InputPipeline input = *scenario.input;
  input.workers = decoding_workers(scenario, need);
  return input;
}

std::string cores_text(const CoreNeed& need) {
  return fmt::format(
      "A node needs {} core{} not to slow the step: {:.1f} to decode, {} to launch, {:.1f} for the "
      "threads of collectives.",
      need.total(), need.total() == 1 ? "" : "s", need.decoding, need.launching, need.proxies);
}

// A step that waits for its samples takes as long as these.
void wait_for_input(const Scenario& scenario, Result& result) {
  if (!scenario.input) return;
  const double share = std::ceil(static_cast<double>(result.batch_global) / std::max(1, result.nodes));
  const CoreNeed need = core_need(scenario, result);
  const InputPipeline input = *input_on_its_host(scenario, need);
  const double supply = batch_supply_time(&input, share, false);
  if (input.workers < scenario.input->workers) {
    result.warnings.push_back(fmt::format("host: of {} cores {} are left to decode, the input asks for {}",
                                          scenario.host->cores, input.workers, scenario.input->workers));
  }
  StepPrediction& step = result.step;
  const double wait = scenario.input->prefetch == 0 ? supply : std::max(0.0, supply - step.time);
  // What a change gains is hidden as long as the samples are not there; a faster input is one more.
  auto waited = [&](double seconds, double supplied) {
    return scenario.input->prefetch == 0 ? seconds + supplied : std::max(seconds, supplied);
  };
  if (!result.sensitivity.empty()) {
    for (Sensitivity& each : result.sensitivity) each.step = waited(each.step, supply);
    result.sensitivity.push_back({"input", "10 % faster", waited(step.time, supply / 1.1), 1, false});
    rank_sensitivity(result.sensitivity, waited(step.time, supply));
    remedies_beside_input(scenario, need, input, supply, result);
  }
  constexpr double noticeable = 0.05;
  if (const double copying = step.breakdown.input; copying > noticeable * step.time) {
    result.limiting = {
        "input", "",
        fmt::format("Input is the limit: the copy of a batch to the device takes {} of each step{}.",
                    format_time(copying),
                    scenario.input->to_device
                        ? ", more than the step beside it hides"
                        : "; input.prefetch_to_device: true would have it beside the step before")};
  }
  if (wait <= 0) return;
  const double before = step.time, longer = (before + wait) / before;
  for (double* time : {&step.time, &step.mean, &step.p05, &step.p50, &step.p95, &step.low, &step.high})
    *time += wait;
  step.breakdown.input += wait;
  result.samples_per_second = static_cast<double>(result.batch_global) / step.mean;
  result.units_per_second = result.samples_per_second;
  result.speedup /= longer;
  result.efficiency /= longer;
  result.gpu.busy /= longer;
  result.gpu.computing /= longer;
  result.gpu.communicating /= longer;
  for (LinkUse& link : result.links) link.utilisation /= longer;
  if (wait / step.time < noticeable) return;
  result.limiting = {
      "input", "",
      fmt::format("Input is the limit: a node makes a batch ready in {}, a step without waiting takes "
                  "{}, so that {} idle for {:.0f} % of the step. {} more cores that decode, or a "
                  "faster reader, would hide it.",
                  format_time(supply), format_time(before),
                  workers_are_cpus(scenario.cluster.topology, scenario.profile.get()) ? "workers" : "GPUs",
                  100 * wait / step.time, whole_cores(scenario.input->workers * (supply / before - 1)))};
}

}  // namespace

double checkpoint_bytes(const Scenario& scenario) {
  if (scenario.job && scenario.job->checkpoint && scenario.job->checkpoint->size) {
    return static_cast<double>(scenario.job->checkpoint->size->count());
  }
  const double parameters = scenario.model        ? static_cast<double>(scenario.model->parameter_count())
                            : scenario.step_times ? scenario.step_times->gradient_bytes / 4
                                                  : 0;
  const bool is_sgd = scenario.optimizer.kind == OptimizerKind::sgd;
  const double state = is_sgd ? (scenario.optimizer.momentum != 0 ? 4 : 0) : 8;
  return parameters * (4 + state);
}

ScheduleInput schedule_input(const Scenario& scenario) {
  ScheduleInput input;
  input.job = scenario.job.get();
  input.samples = scenario.dataset_samples.value_or(0);
  input.batch = scenario.batch_global;
  input.available = static_cast<int>(scenario.cluster.topology.workers.size());
  input.learning_rate = scenario.optimizer.learning_rate;
  return input;
}

namespace {

// What no single key is to blame for, a time out of range or a GPU that no way leads to, is said of the file.
Error located(const Error& error, const Scenario& scenario) {
  std::vector<Diagnostic> findings = error.diagnostics();
  for (Diagnostic& finding : findings) {
    if (finding.where.file.empty()) finding.where = {scenario.file, 1, 1};
  }
  // A value that was let pass with a hint may be why.
  for (const std::string& hint : scenario.warnings)
    if (hint.find(" is implausible ") != std::string::npos) findings.push_back({{}, hint});
  return Error(std::move(findings), error.kind());
}

Result predict_whole(const Scenario& scenario, const JobOptions& options) {
  if (!scenario.job) {
    Result result = predict(scenario, options);
    wait_for_input(scenario, result);
    return result;
  }
  const ScheduleInput input = schedule_input(scenario);
  const UpdateRun first = ScheduleCursor(input).run();
  const bool is_whole = first.workers == input.available && first.batch % first.workers == 0;
  std::shared_ptr<const CollectiveModel> network;
  PredictOptions step = options;
  if (is_whole) step.network = &network;
  // Not by `?:`, which would copy the scenario and leave the network without its cluster.
  Result result;
  if (is_whole) {
    result = predict(scenario, step);
  } else {
    result = predict(with_workers(scenario, first.workers, first.batch), step);
  }
  StepShapes shapes(scenario, network);
  if (is_whole) shapes.remember(first.batch / first.workers, first.workers, result.step);
  wait_for_input(scenario, result);
  const CoreNeed need = core_need(scenario, result);
  const std::optional<InputPipeline> hosted = input_on_its_host(scenario, need);
  const InputPipeline* const own = hosted ? &*hosted : nullptr;
  result.job = JobPredictor(scenario, *scenario.job, own, shapes, options).predict();
  result.events += result.job->events;
  if (scenario.input || scenario.host) result.job->answers.push_back(cores_text(need));
  if (!options.baseline) return result;
  JobOptions alone = options;
  alone.timeline = nullptr;
  alone.baseline = false;
  if (const auto& baseline = scenario.job->baseline) {
    StepShapes others(*baseline);
    const JobPrediction other =
        JobPredictor(*baseline, *baseline->job, baseline->input.get(), others, alone).predict();
    result.job->speedup = speedup_over(other, baseline->name, *result.job);
  } else if (scenario.job->schedule) {
    const Job held = first_phase_of(scenario);
    result.job->speedup = speedup_over(JobPredictor(scenario, held, own, shapes, alone).predict(),
                                       "the first phase held throughout", *result.job);
  }
  return result;
}

}  // namespace

Result predict_job(const Scenario& scenario, const JobOptions& options) {
  try {
    return predict_whole(scenario, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input || scenario.file.empty()) throw;
    throw located(error, scenario);
  }
}

}  // namespace foretrain

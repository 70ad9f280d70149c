#include "calibrate/model_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "calibrate/copies.hpp"
#include "calibrate/in_context.hpp"
#include "calibrate/statistics.hpp"
#include "calibrate/whole_step.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/training/whole_steps.hpp"

namespace foretrain::calibrate {
namespace {

// Where the model's own rate drives the loss to infinity on the one batch that is trained.
constexpr double harmless_learning_rate = 1e-4;

// Fills the entries that the parts of a step belong to.
void sort_parts(const StepPlan& plan, const InContextTimes& times, const HostTimes& host, const Model& model,
                const ModelRunOptions& options, ModelRun& run) {
  for (std::size_t layer = 1; layer < model.layers.size(); ++layer) {
    OperatorEntry entry;
    entry.key = operator_key(model, model.layers[layer]);
    entry.layer = model.layers[layer].name;
    entry.context = model.name;
    entry.precision = options.precision;
    entry.batch = options.batch;
    entry.sequence = model.sequence;
    run.operators.push_back(std::move(entry));
  }
  const auto step_work = [&](const char* what, const PassTiming& timing) {
    run.step_work.push_back({what, model.name, options.precision, options.batch, model.sequence, timing});
  };
  for (std::size_t slot = 0; slot < plan.size(); ++slot) {
    const PassTiming timing{times.parts[slot], host.parts[slot],
                            static_cast<double>(plan.slots()[slot].launches)};
    const Slot& what = plan.slots()[slot];
    switch (what.kind) {
      case Slot::Kind::prepare_weights:
        step_work("cast_weights", timing);
        break;
      case Slot::Kind::zero_gradients:
        step_work("zero_gradients", timing);
        break;
      case Slot::Kind::update:
        run.optimizer = {optimizer_entry_name(model.optimizer), model.name, options.precision,
                         static_cast<double>(model.parameter_count()), timing};
        break;
      case Slot::Kind::layer:
        run.operators[static_cast<std::size_t>(what.item.layer) - 1]
            .passes[static_cast<int>(what.item.pass)] = timing;
        if (what.item.pass != Pass::forward) run.backward += timing.device.median;
        break;
    }
  }
}

// `diverged`: whether the loss was not finite at the end.
ModelRun measure_at(Session& session, device::Backend& backend, int device, const Model& model,
                    const ModelRunOptions& options, const device::BuildOptions& build, bool& diverged) {
  Clock& clock = session.clock;
  device::Worker& worker = session.worker;
  const double start = clock.now();
  const auto program = worker.build(model, build);
  worker.reset_peak();  // of the step, not of the search for plans
  program->synthesize_input(options.seed);
  StepPlan plan(*program);
  plan.issue_all();
  worker.synchronize();
  session.check();
  // Known roughly, so that long steps are repeated less often.
  const double before = clock.now();
  plan.issue_all();
  worker.synchronize();
  const double expected_step = clock.now() - before;
  session.check();

  ModelRun run;
  const double left = std::max(options.seconds - (clock.now() - start), options.seconds / 3);
  // Host and device by themselves first: they decide how the parts are timed.
  const HostTimes host = measure_host(session, plan, 0.08 * left, expected_step);
  const GatedStep gated =
      measure_gated_step(session, plan, options.event_gap, 0.08 * left, expected_step, host.step.median);

  const SoakReport load = soak(session, plan, backend, device,
                               {.least = options.least_soak,
                                .most = std::min(options.most_soak, 0.3 * left),
                                .expected_step = expected_step});
  if (!load.settled)
    run.warnings.push_back(fmt::format("{} {} batch {}: the clock had not settled after {} of load",
                                       model.name, foretrain::name_of(options.precision), options.batch,
                                       format_time(load.seconds)));
  const double after_soak = clock.now();
  const double remaining = std::max(options.seconds - (after_soak - start), 0.3 * options.seconds);
  InContextOptions in_context;
  in_context.event_gap = options.event_gap;
  in_context.seconds = 0.5 * remaining;
  in_context.expected_step = gated.step.median;
  in_context.expected_host = host.step.median;
  const InContextTimes times = measure_in_context(session, plan, in_context);
  const WholeStep whole = measure_whole_step(session, plan, 0.3 * remaining, gated.step.median);
  const double input_copy_seconds = 0.05 * remaining, captured_seconds = 0.1 * remaining;
  const device::Clocks clocks = backend.clocks(device);
  run.throttled = clocks.throttled;
  run.throttle_reason = clocks.throttle_reason;

  sort_parts(plan, times, host, model, options, run);
  // After the clocks were read, for it is another load.
  const CapturedStep captured = measure_captured_step(session, plan, captured_seconds);
  diverged = !std::isfinite(program->loss());
  run.step_work.push_back(
      {"input_copy", model.name, options.precision, options.batch, model.sequence,
       measure_input_copy(session, *program, model, options.batch, options.event_gap, input_copy_seconds)});

  if (captured.step.repetitions > 0) {
    run.step_work.push_back({captured_step_work, model.name, options.precision, options.batch, model.sequence,
                             PassTiming{captured.step, captured.host, 1}});
  }

  run.step.model = model.name;
  run.step.precision = options.precision;
  run.step.batch = options.batch;
  run.step.sequence = model.sequence;
  run.step.step = whole.step;
  run.step.p05 = whole.p05;
  run.step.p95 = whole.p95;
  run.step.peak_bytes = static_cast<double>(worker.peak_bytes());
  run.step.workspace_bytes = static_cast<double>(program->report().workspace_bytes);
  run.step.host = host.step;
  run.step.launches = plan.launches();

  const bool host_bound = host.step.median > gated.step.median;
  append_log_deviations(host_bound ? gated.steps : whole.steps, run.device_deviations);
  append_log_deviations(host.steps, run.host_deviations);

  CheckRow& check = run.check;
  check.model = model.name;
  check.precision = options.precision;
  check.batch = options.batch;
  check.step = whole.step;
  check.p05 = whole.p05;
  check.p95 = whole.p95;
  check.parts = times.sum;
  check.host = host.step.median;
  check.device = gated.step.median;
  check.event_gap = options.event_gap;
  check.event_gap_in_context = times.event_gap_in_context;
  check.launches = plan.launches();
  check.gated = times.gated;
  if (times.relative_error > 0.01)
    run.warnings.push_back(
        fmt::format("{} {} batch {}: the parts' times are noisy, their sum known to {:.1f} %", model.name,
                    foretrain::name_of(options.precision), options.batch, 100 * times.relative_error));
  return run;
}

}  // namespace

device::BuildOptions build_options(const Model& model, std::int64_t batch, Precision precision,
                                   std::uint64_t seed) {
  device::BuildOptions options;
  options.batch = batch;
  options.precision = precision;
  options.gradients = device::ElementType::fp32;
  options.optimizer = model.optimizer;
  options.seed = seed;
  return options;
}

ModelRun measure_model(Session& session, device::Backend& backend, int device, const Model& model,
                       const ModelRunOptions& options) {
  device::BuildOptions build = build_options(model, options.batch, options.precision, options.seed);
  bool diverged = false;
  ModelRun run = measure_at(session, backend, device, model, options, build, diverged);
  if (!diverged) return run;
  // Kernels draw less power on numbers that are not finite, and are faster.
  build.optimizer.learning_rate = harmless_learning_rate;
  run = measure_at(session, backend, device, model, options, build, diverged);
  run.warnings.push_back(
      fmt::format("{} {} batch {}: the loss is not finite at the model's learning rate of "
                  "{:g}; measured at {:g}",
                  model.name, foretrain::name_of(options.precision), options.batch,
                  model.optimizer.learning_rate, harmless_learning_rate));
  return run;
}

}  // namespace foretrain::calibrate

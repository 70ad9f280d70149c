#include "execute/job_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/input/job.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/job/step_shapes.hpp"
#include "sim/job/trigger.hpp"

namespace foretrain {
namespace {

// Evaluations or checkpoints as the timeline of a predicted job has them.
std::optional<Trigger> trigger_of(const Interval& every, double samples) {
  if (every.amount <= 0) return std::nullopt;
  if (every.unit == Interval::Unit::time)
    throw Error(ErrorKind::input, "run: evaluates and saves after epochs or updates, not after times");
  return Trigger(every, samples);
}

void check_evaluation(const JobPlan& plan, const Evaluation& evaluation) {
  for (const TrainingPhase& phase : plan.phases) {
    if (evaluation.batch_per_worker == 0 || evaluation.batch_per_worker * phase.workers == phase.batch)
      continue;
    throw Error(ErrorKind::input,
                fmt::format("run: evaluates at the batch of training, {} a worker; leave out "
                            "job.evaluate.batch_per_worker ({})",
                            phase.batch / phase.workers, evaluation.batch_per_worker));
  }
}

}  // namespace

std::int64_t JobPlan::updates() const {
  std::int64_t total = 0;
  for (const TrainingPhase& phase : phases) total += phase.updates;
  return total;
}

std::optional<JobPlan> job_plan(const Scenario& scenario) {
  if (!scenario.job) return std::nullopt;
  if (!scenario.dataset_samples) {
    throw Error(ErrorKind::input, "a job needs dataset.samples, to know what an epoch is");
  }
  const Job& job = *scenario.job;
  if (job.schedule && job.schedule->rule == Schedule::Rule::adadamp) {
    throw Error(ErrorKind::input,
                "run: a schedule that follows a given loss is simulated only; give its phases");
  }
  JobPlan plan;
  const ScheduleInput input = schedule_input(scenario);
  const auto samples = static_cast<double>(*scenario.dataset_samples);
  std::optional<Trigger> evaluate, save;
  if (job.evaluate) evaluate = trigger_of(job.evaluate->every, samples);
  if (job.checkpoint) save = trigger_of(job.checkpoint->every, samples);
  for (ScheduleCursor cursor(input); !cursor.is_finished();) {
    const UpdateRun run = cursor.run();
    std::int64_t count = run.updates;
    for (const auto* trigger : {&evaluate, &save}) {
      if (*trigger) count = std::min(count, (*trigger)->distance(cursor, run, 0, 0));
    }
    std::optional<double> rate;
    if (job.schedule && job.learning_rate.kind == LearningRateLaw::Kind::constant)
      rate = cursor.learning_rate();
    const bool goes_on =
        !plan.phases.empty() && (run.is_short || (plan.phases.back().batch == run.batch &&
                                                  plan.phases.back().workers == run.workers &&
                                                  plan.phases.back().learning_rate == rate));
    if (run.is_short) plan.short_batches += count;
    if (goes_on) {
      plan.phases.back().updates += count;
    } else {
      plan.phases.push_back({count, run.batch, run.workers, rate});
    }
    cursor.advance(count);
    if (evaluate && evaluate->take(cursor, 0)) plan.evaluations.push_back(cursor.updates());
    if (save && save->take(cursor, 0)) plan.checkpoints.push_back(cursor.updates());
  }
  plan.writes_beside = job.checkpoint && job.checkpoint->asynchronous;
  if (job.evaluate) {
    plan.evaluation_samples = job.evaluate->samples;
    plan.evaluates_on_one = job.evaluate->on_one_worker;
    check_evaluation(plan, *job.evaluate);
  }
  return plan;
}

Scenario with_phase(const Scenario& scenario, const TrainingPhase& phase) {
  if (phase.workers < 1 || phase.batch % phase.workers != 0) {
    throw Error(ErrorKind::input,
                fmt::format("a batch of {} cannot be dealt out to {} workers", phase.batch, phase.workers));
  }
  Scenario out = with_workers(scenario, phase.workers, phase.batch);
  if (phase.learning_rate) out.optimizer.learning_rate = *phase.learning_rate;
  return out;
}

}  // namespace foretrain

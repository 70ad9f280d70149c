#include "execute/job_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/input/job.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/job/step_shapes.hpp"

namespace foretrain {
namespace {

std::int64_t updates_in(double epochs, double updates_an_epoch) {
  return std::max<std::int64_t>(1, std::llround(epochs * updates_an_epoch));
}

std::int64_t updates_of(const Interval& interval, double updates_an_epoch) {
  if (interval.unit == Interval::Unit::epochs) return updates_in(interval.amount, updates_an_epoch);
  if (interval.unit == Interval::Unit::updates) return std::llround(interval.amount);
  throw Error(ErrorKind::input, "run: evaluates and saves after epochs or updates, not after times");
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
  for (ScheduleCursor cursor(input); !cursor.is_finished();) {
    const UpdateRun run = cursor.run();
    std::optional<double> rate;
    if (job.schedule && job.learning_rate.kind == LearningRateLaw::Kind::constant)
      rate = cursor.learning_rate();
    const bool goes_on =
        !plan.phases.empty() && (run.is_short || (plan.phases.back().batch == run.batch &&
                                                  plan.phases.back().workers == run.workers &&
                                                  plan.phases.back().learning_rate == rate));
    if (goes_on) {
      plan.phases.back().updates += run.updates;
    } else {
      plan.phases.push_back({run.updates, run.batch, run.workers, rate});
    }
    cursor.advance(run.updates);
  }
  double an_epoch =
      static_cast<double>(*scenario.dataset_samples) / static_cast<double>(scenario.batch_global);
  if (job.last_batch == LastBatch::keep) an_epoch = std::ceil(an_epoch);
  if (job.last_batch == LastBatch::drop) an_epoch = std::floor(an_epoch);
  if (job.evaluate && job.evaluate->every.amount > 0) {
    plan.evaluate_every = updates_of(job.evaluate->every, an_epoch);
    plan.evaluation_samples = job.evaluate->samples;
  }
  if (job.checkpoint && job.checkpoint->every.amount > 0) {
    plan.checkpoint_every = updates_of(job.checkpoint->every, an_epoch);
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

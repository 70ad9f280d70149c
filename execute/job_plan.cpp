#include "execute/job_plan.hpp"

#include <algorithm>

#include "sim/input/job.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/job/step_shapes.hpp"

namespace foretrain {
namespace {

// Evaluations or checkpoints as the timeline of a predicted job has them.
Trigger trigger_of(const Interval& every, double samples) {
  if (every.unit == Interval::Unit::time)
    throw Error(ErrorKind::input, "run: evaluates and saves after epochs or updates, not after times");
  return Trigger(every, samples);
}

std::shared_ptr<const ScheduleInput> input_of(const Scenario& scenario) {
  if (!scenario.dataset_samples) {
    throw Error(ErrorKind::input, "a job needs dataset.samples, to know what an epoch is");
  }
  auto input = std::make_shared<ScheduleInput>(schedule_input(scenario));
  input->sees_losses = true;
  return input;
}

}  // namespace

JobWalk::JobWalk(const Scenario& scenario)
    : input_(input_of(scenario)), job_(scenario.job), cursor_(*input_) {
  const auto samples = static_cast<double>(input_->samples);
  if (job_->evaluate) evaluate_ = trigger_of(job_->evaluate->every, samples);
  if (job_->checkpoint) save_ = trigger_of(job_->checkpoint->every, samples);
}

PlannedUpdate JobWalk::next() const {
  const UpdateRun run = cursor_.run();
  return {run.batch,   share_of(run.batch, run.workers),
          run.full,    share_of(run.full, run.workers),
          run.workers, run.phase,
          run.adapts,  cursor_.learning_rate()};
}

JobWalk::After JobWalk::advance() {
  cursor_.advance(1);
  After after;
  after.evaluates = evaluate_ && evaluate_->take(cursor_, 0);
  after.saves = save_ && save_->take(cursor_, 0);
  return after;
}

void JobWalk::see_loss(double loss) {
  losses_.push_back({updates(), loss});
  cursor_.see_loss(loss);
}

void JobWalk::go_to(std::int64_t updates, const std::vector<LossSeen>& losses) {
  auto seen = losses.begin();
  while (!is_finished() && this->updates() < updates) {
    for (; seen != losses.end() && seen->updates == this->updates(); ++seen) see_loss(seen->loss);
    advance();
  }
}

std::vector<std::int64_t> JobWalk::short_shares() const {
  std::vector<std::int64_t> shares;
  if (is_finished()) return shares;
  const PlannedUpdate shape = next();
  for (ScheduleCursor ahead = cursor_; !ahead.is_finished();) {
    const UpdateRun run = ahead.run();
    const std::int64_t share = share_of(run.batch, run.workers);
    if (run.workers != shape.workers || share_of(run.full, run.workers) != shape.full_share) break;
    if (share != shape.full_share && std::find(shares.begin(), shares.end(), share) == shares.end())
      shares.push_back(share);
    ahead.advance(run.updates);
  }
  return shares;
}

bool JobWalk::changes_shape() const {
  if (is_finished()) return false;
  if (job_->schedule && job_->schedule->rule == Schedule::Rule::adadamp) return true;
  const UpdateRun first = cursor_.run();
  for (ScheduleCursor ahead = cursor_; !ahead.is_finished();) {
    const UpdateRun run = ahead.run();
    if (run.full != first.full || run.workers != first.workers) return true;
    ahead.advance(run.updates);
  }
  return false;
}

std::set<int> JobWalk::worker_counts() const {
  std::set<int> counts;
  for (ScheduleCursor ahead = cursor_; !ahead.is_finished();) {
    const UpdateRun run = ahead.run();
    counts.insert(run.workers);
    ahead.advance(run.updates);
  }
  if (job_->schedule && job_->schedule->rule == Schedule::Rule::adadamp) {
    const std::int64_t largest = job_->schedule->max_batch.value_or(input_->samples);
    for (std::int64_t batch = job_->schedule->batch; batch <= largest; ++batch)
      counts.insert(workers_for(job_->workers, batch, input_->available));
  }
  return counts;
}

std::optional<JobPlan> job_plan(const Scenario& scenario) {
  if (!scenario.job) return std::nullopt;
  const Job& job = *scenario.job;
  if (job.workers.budget) {
    throw Error(ErrorKind::input,
                "run: job.workers.budget is a question to `simulate`, which says how many workers the budget "
                "pays for; run with job.workers.most");
  }
  JobPlan plan{JobWalk(scenario)};
  if (job.checkpoint) {
    plan.saves = job.checkpoint->every.amount > 0;
    plan.writes_beside = job.checkpoint->asynchronous;
  }
  if (job.schedule) plan.loss_samples = job.schedule->loss_samples;
  if (job.evaluate) {
    plan.evaluation_samples = job.evaluate->samples;
    plan.evaluation_batch = job.evaluate->batch_per_worker;
    plan.evaluates_on_one = job.evaluate->on_one_worker;
  }
  return plan;
}

Scenario with_update(const Scenario& scenario, const PlannedUpdate& update) {
  Scenario out = with_workers(scenario, update.workers, update.full_batch);
  out.optimizer.learning_rate = update.learning_rate;
  return out;
}

}  // namespace foretrain

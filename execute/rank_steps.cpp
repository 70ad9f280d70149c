#include "execute/rank_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "execute/noise_scale.hpp"
#include "execute/rank_build.hpp"
#include "sim/base/quantile.hpp"

namespace foretrain {

RankSteps::RankSteps(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
                     device::Worker& worker, device::Program& program, Trainer& trainer, Exchange& exchange,
                     SizedPrograms& programs, const DataSource* data, const UnequalData* unequal,
                     RunControl& control, RankRecord& record)
    : scenario_(scenario),
      options_(options),
      place_(place),
      worker_(worker),
      program_(program),
      exchange_(exchange),
      programs_(programs),
      data_(data),
      unequal_(unequal),
      control_(control),
      record_(record),
      meter_(
          worker, trainer, [&control] { control.check(); },
          [this](const StepTiming& timing) { keep(timing); }) {
  full_ = {&program, &trainer, scenario.batch_per_worker / scenario.strategy.accumulation};
  running_ = full_;
  batch_ = scenario.batch_per_worker * place.world;
}

void RankSteps::feed(const JobWalk* job) {
  reader_.reset();
  update_ = job == nullptr ? 0 : job->updates();
  if (data_ == nullptr) return;
  const int parts = scenario_.strategy.accumulation;
  const BatchPlace first{0, full_.batch, place_.rank * parts, place_.world * parts};
  if (job == nullptr) {
    reader_ = std::make_unique<BatchReader>(*data_, first, [parts, first](BatchPlace& at) {
      if (++at.index < first.index + parts) return;
      at.index = first.index;
      ++at.update;
    });
    return;
  }
  const auto place_at = [parts, first](const JobWalk& walk, BatchPlace& at) {
    at.index = first.index;
    at.update = walk.updates();
    if (walk.is_finished()) return;
    at.size = std::max<std::int64_t>(1, walk.next().share / parts);
    at.before = walk.position();
  };
  BatchPlace begin = first;
  place_at(*job, begin);
  reader_ = std::make_unique<BatchReader>(*data_, begin,
                                          [parts, first, place_at, walk = *job](BatchPlace& at) mutable {
                                            if (++at.index < first.index + parts) return;
                                            if (!walk.is_finished()) walk.advance();
                                            place_at(walk, at);
                                          });
}

bool RankSteps::warm_up(int steps) {
  meter_.restart();
  counts_ = false;
  return issue(steps);
}

bool RankSteps::train(int steps) {
  counts_ = false;
  if (unequal_ != nullptr) feed();  // of the draws that were predicted
  meter_.restart();
  if (!issue(1)) return false;
  uncounted_left_ = 1;
  begin_counting();
  const int block = options_.noise_every > 0 ? options_.noise_every : steps;
  bool whole = true;
  for (int done = 0; whole && done < steps;) {
    const int count = std::min(block, steps - done);
    whole = issue(count);
    done += count;
    if (!whole || options_.noise_every == 0 || count < block) continue;
    meter_.drain();
    look_at_noise(done);
    meter_.restart();
  }
  meter_.drain();
  end_counting();
  return whole;
}

double RankSteps::monitor_cost() {
  constexpr int blocks = 8, block_steps = 10;
  std::vector<double> with, without;
  for (int block = 0; block < blocks; ++block) {
    const bool paused = block % 2 == 0;
    if (place_.local == 0) options_.pause_monitor(paused);
    std::vector<double>& steps = paused ? without : with;
    const std::size_t before = record_.warmup.size();
    counts_ = false;
    meter_.restart();
    if (!issue(block_steps + 1)) return 0;
    meter_.drain();
    const auto first = record_.warmup.begin() + static_cast<std::ptrdiff_t>(before);
    steps.insert(steps.end(), first + 1, record_.warmup.end());
    record_.warmup.resize(before);
  }
  return median(with) / median(without) - 1;
}

bool RankSteps::train(const RankJob& job, JobWalk& walk) {
  const JobPlan& plan = *job.plan;
  const PlannedUpdate shape = walk.next();
  batch_ = shape.full_batch;
  meter_.restart();
  begin_counting();
  double begin = now();
  std::int64_t first = walk.updates();
  int phase = shape.phase;
  const auto end_phase = [&] {
    if (walk.updates() > first) note("phase", begin, first).phase = phase;
  };
  bool whole = true;
  while (whole && !walk.is_finished()) {
    PlannedUpdate update = walk.next();
    if (update.looks) {
      meter_.drain();
      walk.see_loss(look_at_loss(plan, walk.updates()));
      meter_.restart();
      update = walk.next();
    }
    if (!update.same_shape(shape)) break;
    if (update.phase != phase) {
      meter_.drain();
      end_phase();
      begin = now();
      first = walk.updates();
      phase = update.phase;
      batch_ = update.full_batch;
      meter_.restart();
    }
    whole = issue(update);
    if (!whole) break;
    const JobWalk::After after = walk.advance();
    const bool saves = after.saves && !job.checkpoint.empty();
    const bool looks = options_.noise_every > 0 && walk.updates() % options_.noise_every == 0;
    if (!after.evaluates && !saves && !looks) continue;
    meter_.drain();
    if (looks) look_at_noise(walk.updates());
    if (after.evaluates) evaluate(walk.updates());
    if (saves) save(job, walk);
    meter_.restart();
  }
  meter_.drain();
  await_last_write(walk.updates());
  end_counting();
  end_phase();
  return whole;
}

void RankSteps::begin_counting() {
  counts_ = true;
  if (keeps_time() && options_.timeline->first_counted < 0) {
    options_.timeline->first_counted = now();
    note("startup", 0, 0);
  }
}

void RankSteps::end_counting() {
  if (keeps_time()) options_.timeline->last_counted = now();
}

RunEvent& RankSteps::note(const char* what, double begin, std::int64_t updates, double bytes) {
  RunEvent event{what, begin, now(), updates, batch_, place_.world, bytes};
  if (!keeps_time()) return unnoted_ = std::move(event);
  options_.timeline->events.push_back(std::move(event));
  return options_.timeline->events.back();
}

bool RankSteps::issue(std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    if (!issue_step()) return false;
  }
  return true;
}

bool RankSteps::issue(const PlannedUpdate& update) {
  running_ = programs_.of_share(update.share, row());
  running_.program->set_learning_rate(update.learning_rate);
  if (update.is_short() && keeps_time()) options_.timeline->short_batches.push_back(counted_issued_);
  return issue_step();
}

bool RankSteps::issue_step() {
  if (!control_.may_issue(step_)) return false;
  if (options_.before_step) options_.before_step(place_.rank, step_);
  if (unequal_ != nullptr) {
    // What a short update takes was chosen before.
    const std::int64_t parts = scenario_.strategy.accumulation;
    if (options_.job == nullptr || !counts_) running_ = programs_.of_share(full_.batch * parts, row());
    if (counts_) note_lengths(running_.batch * parts);
  }
  const bool phases = counts_ && counted_issued_ % options_.phase_every == 0;
  const StepMarks& marks = meter_.begin_step(phases);
  running_.trainer->issue_step(marks, [this](int) { next_batch(); });
  meter_.step_issued();
  if (counts_ && options_.each_loss) {
    meter_.drain();
    record_.loss.push_back(running_.program->loss());
  }
  if (counts_) ++counted_issued_;
  ++step_;
  ++update_;
  control_.progressed(place_.local);
  return true;
}

std::int64_t RankSteps::row() const {
  return unequal_ != nullptr && reader_ ? unequal_->row(update_, place_.rank) : 0;
}

void RankSteps::note_lengths(std::int64_t rows) {
  record_.useful_units.push_back(unequal_->useful(update_, place_.rank, rows));
  record_.padded_units.push_back(unequal_->padded(update_, place_.rank, rows));
}

void RankSteps::next_batch() {
  if (!reader_) return;
  const std::int64_t waits = reader_->waits();
  reader_->take([this](const Batch& batch) { give(batch, *running_.program); });
  if (reader_->waits() > waits && counts_ && keeps_time()) {
    options_.timeline->late_batches.push_back(counted_issued_);
  }
}

void RankSteps::look_at_noise(std::int64_t updates) {
  constexpr int batches = 8;
  constexpr std::int64_t beyond = std::int64_t{1} << 30;
  control_.set_stage(place_.local, "looking at the noise of gradients");
  const double begin = now();
  programs_.of_passes(0);
  const TrainingState state = take_state(worker_, program_, updates);
  const std::int64_t size = scenario_.batch_per_worker / scenario_.strategy.accumulation;
  Batch batch;
  NoiseLook look = foretrain::look_at_noise(worker_, program_, *scenario_.model, size, batches, [&](int i) {
    control_.check();
    options_.data->fill({beyond + updates, size, place_.rank * batches + i, place_.world * batches}, batch);
    give(batch, program_);
    control_.progressed(place_.local);
  });
  put_state(state, worker_, program_);
  look.update = updates;
  look.gradient_squared = exchange_.mean(look.gradient_squared);
  look.trace = exchange_.mean(look.trace);
  if (keeps_time()) options_.timeline->noise_looks.push_back(look);
  note("noise scale", begin, updates);
  control_.set_stage(place_.local, "training");
}

void RankSteps::evaluate(std::int64_t updates) {
  const JobPlan& plan = *options_.job->plan;
  if (plan.evaluates_on_one && place_.rank != 0) return;
  control_.set_stage(place_.local, "evaluating");
  const double begin = now();
  const SizedPrograms::Sized sized = programs_.of_passes(plan.evaluation_batch);
  run_passes(worker_, *sized.program,
             passes_over(plan.evaluation_samples, sized.batch * (plan.evaluates_on_one ? 1 : place_.world)),
             [this] { go_on(); });
  note("evaluation", begin, updates);
  control_.set_stage(place_.local, "training");
}

double RankSteps::look_at_loss(const JobPlan& plan, std::int64_t updates) {
  control_.set_stage(place_.local, "looking at the loss over the data");
  const double begin = now();
  const SizedPrograms::Sized sized = programs_.of_passes(0);
  const double own =
      mean_loss(worker_, *sized.program, options_.data.get(), place_, sized.batch,
                passes_over(plan.loss_samples, sized.batch * place_.world), [this] { go_on(); });
  const double loss = exchange_.mean(own);
  if (!std::isfinite(loss)) {
    throw Error(
        ErrorKind::failure,
        fmt::format("the loss over the data is no finite number after {} updates, so that it gives no "
                    "batch; lower the learning rate",
                    updates));
  }
  note("adaptation", begin, updates).loss = loss;
  control_.set_stage(place_.local, "training");
  return loss;
}

std::int64_t RankSteps::passes_over(std::int64_t samples, std::int64_t a_pass) {
  return (samples + a_pass - 1) / a_pass;
}

void RankSteps::go_on() {
  control_.check();
  control_.progressed(place_.local);
}

void RankSteps::save(const RankJob& job, const JobWalk& walk) {
  if (place_.rank != 0) return;
  const std::int64_t updates = walk.updates();
  control_.set_stage(place_.local, "writing a checkpoint", false);
  const double begin = now();
  finish_write();
  TrainingState state = take_state(worker_, program_, updates);
  state.losses = walk.losses();
  if (job.plan->writes_beside) {
    const auto bytes = static_cast<double>(state.weights.size() + state.state.size());
    writing_ = std::async(std::launch::async, [this, &job, state = std::move(state)] {
      const double write_begin = now();
      const std::int64_t written = write_checkpoint(job.checkpoint, job.identity, state);
      return Written{write_begin, now(), state.updates, static_cast<double>(written)};
    });
    note("checkpoint", begin, updates, bytes);
  } else {
    const std::int64_t bytes = write_checkpoint(job.checkpoint, job.identity, state);
    note("checkpoint", begin, updates, static_cast<double>(bytes));
  }
  control_.set_stage(place_.local, "training");
}

void RankSteps::finish_write() {
  if (!writing_.valid()) return;
  const Written written = writing_.get();
  note("checkpoint write", written.begin, written.updates, written.bytes).end = written.end;
}

void RankSteps::await_last_write(std::int64_t updates) {
  if (!writing_.valid()) return;
  control_.set_stage(place_.local, "writing a checkpoint", false);
  const double begin = now();
  finish_write();
  note("checkpoint", begin, updates);
}

void RankSteps::keep(const StepTiming& timing) {
  control_.finished_step(place_.local);
  if (!counts_ || uncounted_left_ > 0) {
    if (counts_) --uncounted_left_;
    record_.warmup.push_back(timing.step);
    return;
  }
  record_.step.push_back(timing.step);
  record_.step_host.push_back(timing.step_host);
  if (!timing.has_phases) return;
  record_.forward.push_back(timing.forward);
  record_.backward.push_back(timing.backward);
  record_.exposed_communication.push_back(timing.exposed_communication);
  record_.optimizer.push_back(timing.optimizer);
  for (std::size_t b = 0; b < record_.buckets.size(); ++b) {
    record_.buckets[b].ready.push_back(timing.ready[b]);
    record_.buckets[b].finished.push_back(timing.finished[b]);
  }
}

}  // namespace foretrain

#include "sim/job/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

// Counts are whole numbers in doubles: what lies this little above one is that one.
constexpr double rounding = 1e-9;

double rounded_up(double x) {
  return std::ceil(x - rounding * std::max(1.0, std::fabs(x)));
}

std::int64_t whole(double x) {
  constexpr double most = 9e15;
  if (!(x < most)) throw Error(ErrorKind::input, "job: more than 9e15 updates: take fewer epochs");
  return static_cast<std::int64_t>(x);
}

}  // namespace

double curve_at(const Curve& curve, std::size_t run, double updates, double epochs) {
  const auto& points = curve.runs[run];
  const double x = curve.by_epochs ? epochs : updates;
  const auto after = std::upper_bound(points.begin(), points.end(), x,
                                      [](double value, const auto& point) { return value < point.first; });
  if (after == points.begin()) return points.front().second;
  if (after == points.end()) return points.back().second;
  const auto& [x0, y0] = *(after - 1);
  const auto& [x1, y1] = *after;
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

ScheduleCursor::ScheduleCursor(const ScheduleInput& input) : input_(&input) {
  if (input.samples < 1) {
    throw Error(ErrorKind::input, "a job needs the size of an epoch: add 'dataset: { samples: N }'");
  }
  samples_per_epoch_ = static_cast<double>(input.samples);
  end_ = input.job->epochs * samples_per_epoch_;
  constexpr double most_samples = 9007199254740992.0;  // counted exactly
  if (end_ > most_samples) {
    throw Error(ErrorKind::input,
                fmt::format("a job of {:.3g} samples is longer than what can be counted, 9.0e15: fewer "
                            "epochs, or a smaller data set",
                            end_));
  }
  if (const auto& schedule = input.job->schedule;
      schedule && schedule->rule == Schedule::Rule::adadamp && !input.sees_losses && !input.job->curve) {
    throw Error(ErrorKind::input,
                "schedule: adadamp follows the loss, which is not known before a run: to predict it add "
                "'curve: FILE.csv' to the job, as run --curve writes it");
  }
  first_batch_ = input.batch;
  if (const auto& schedule = input.job->schedule) {
    first_batch_ = schedule->phases.empty() ? schedule->batch : schedule->phases.front().batch;
  }
  if (first_batch_ < 1) throw Error(ErrorKind::input, "a job needs a batch or a schedule");
  settle();
}

// Samples for the progress of one sample at the reference batch: both laws have the form
// (scale + B) / (scale + B0).
double ScheduleCursor::samples_factor(double batch) const {
  const SamplesLaw& law = input_->job->samples;
  if (law.kind == SamplesLaw::Kind::fixed_epochs) return 1;
  const auto reference = static_cast<double>(law.reference_batch > 0 ? law.reference_batch : first_batch_);
  return (law.scale + batch) / (law.scale + reference);
}

double ScheduleCursor::wanted_batch() const {
  const auto& schedule = input_->job->schedule;
  if (!schedule) return static_cast<double>(input_->batch);
  if (schedule->rule == Schedule::Rule::phases) {
    return static_cast<double>(schedule->phases[static_cast<std::size_t>(phase_)].batch);
  }
  const auto start = static_cast<double>(schedule->batch);
  const auto looked = static_cast<double>(updates_ / schedule->dwell * schedule->dwell);
  if (schedule->rule == Schedule::Rule::padadamp) return rounded_up(start + schedule->rate * looked);
  if (input_->sees_losses) {
    const double ratio = loss_ > 0 ? first_loss_ / loss_ : looked_at_ < 0 ? 1 : samples_per_epoch_;
    return rounded_up(start * std::max(1.0, ratio));
  }
  const Curve& curve = *input_->job->curve;
  const double at_epoch = position_ / samples_per_epoch_;
  const double first = curve_at(curve, 0, 0, 0), now = curve_at(curve, 0, looked, at_epoch);
  return now > 0 ? rounded_up(start * std::max(1.0, first / now)) : samples_per_epoch_;
}

std::int64_t ScheduleCursor::batch() const {
  const auto& schedule = input_->job->schedule;
  const double largest =
      schedule && schedule->max_batch ? static_cast<double>(*schedule->max_batch) : samples_per_epoch_;
  return static_cast<std::int64_t>(std::min(wanted_batch(), largest));
}

int ScheduleCursor::workers(std::int64_t batch) const {
  const auto& schedule = input_->job->schedule;
  if (schedule && !schedule->phases.empty()) {
    if (const auto& given = schedule->phases[static_cast<std::size_t>(phase_)].workers) return *given;
  }
  WorkerRule rule = input_->job->workers;
  if (input_->budget_workers > 0) {
    rule.most = std::min(rule.most.value_or(input_->budget_workers), input_->budget_workers);
  }
  return workers_for(rule, batch, input_->available);
}

double ScheduleCursor::until_phase() const {
  const auto& schedule = input_->job->schedule;
  if (!schedule || static_cast<std::size_t>(phase_) + 1 >= schedule->phases.size()) return end_;
  const Interval& from = schedule->phases[static_cast<std::size_t>(phase_) + 1].from;
  return from.unit == Interval::Unit::epochs ? std::min(end_, from.amount * samples_per_epoch_) : end_;
}

UpdateRun ScheduleCursor::run() const {
  const auto& schedule = input_->job->schedule;
  UpdateRun out;
  out.batch = out.full = batch();
  out.phase = phase_;
  out.workers = workers(out.batch);
  const auto size = static_cast<double>(out.batch);
  double most = std::numeric_limits<double>::infinity();
  if (schedule && schedule->rule == Schedule::Rule::adadamp) {
    most = static_cast<double>(schedule->dwell - updates_ % schedule->dwell);
    out.adapts = updates_ % schedule->dwell == 0 && looked_at_ != updates_;
  } else if (schedule && schedule->rule == Schedule::Rule::padadamp) {
    const bool is_largest = schedule->max_batch && out.batch == *schedule->max_batch;
    if (!is_largest && size < samples_per_epoch_) {
      // The first multiple of dwell at which the batch is larger.
      const auto dwell = static_cast<double>(schedule->dwell);
      const double past = (size - static_cast<double>(schedule->batch)) / schedule->rate;
      double next = (std::floor(past / dwell * (1 + rounding)) + 1) * dwell;
      const double here = std::floor(static_cast<double>(updates_) / dwell) * dwell;
      next = std::max(next, here + dwell);
      most = next - static_cast<double>(updates_);
    }
  } else if (schedule && static_cast<std::size_t>(phase_) + 1 < schedule->phases.size()) {
    const Interval& from = schedule->phases[static_cast<std::size_t>(phase_) + 1].from;
    if (from.unit == Interval::Unit::updates) most = from.amount - static_cast<double>(updates_);
  }
  const double left = until_phase() - progress_, an_update = size / samples_factor(size);
  if (input_->job->last_batch == LastBatch::carry) {
    const double last = std::round(exact_ + (until_phase() - from_) / an_update);
    out.updates = whole(std::min(most, last - static_cast<double>(updates_)));
    return out;
  }
  const double in_epoch = samples_per_epoch_ - std::fmod(position_, samples_per_epoch_);
  if (in_epoch < size) {  // with `drop`, settle() has gone past it
    out.is_short = true;
    out.batch = static_cast<std::int64_t>(in_epoch);
    out.updates = 1;
    return out;
  }
  out.updates = whole(std::min({most, std::floor(in_epoch / size), rounded_up(left / an_update)}));
  return out;
}

void ScheduleCursor::see_loss(double loss) {
  if (looked_at_ < 0) first_loss_ = loss;
  loss_ = loss;
  looked_at_ = updates_;
  settle();
}

void ScheduleCursor::advance(std::int64_t updates) {
  const UpdateRun now = run();
  const auto size = static_cast<double>(now.batch), count = static_cast<double>(updates);
  const double factor = samples_factor(static_cast<double>(batch()));
  updates_ += updates;
  trained_ += count * size;
  if (input_->job->last_batch == LastBatch::carry) {
    const double until = until_phase();
    progress_ = std::min(until, from_ + (static_cast<double>(updates_) - exact_) * size / factor);
    // At the phase's last update, however the rounding fell.
    const double last = exact_ + (until - from_) * factor / size;
    if (static_cast<double>(updates_) >= std::round(last)) progress_ = until;
    const bool is_unscaled = input_->job->samples.kind == SamplesLaw::Kind::fixed_epochs;
    position_ = is_unscaled ? progress_ : trained_;
  } else {
    position_ += count * size;
    progress_ += count * size / factor;
  }
  settle();
}

EpochRun ScheduleCursor::epochs_ahead() const {
  const auto& schedule = input_->job->schedule;
  if (input_->job->last_batch == LastBatch::carry) return {};
  // A batch that grows by updates stays what it is at its largest alone; one that follows the loss never
  // does.
  if (schedule && schedule->rule == Schedule::Rule::adadamp) return {};
  if (schedule && schedule->rule == Schedule::Rule::padadamp &&
      batch() < std::min(input_->samples, schedule->max_batch.value_or(input_->samples)))
    return {};
  if (std::fmod(position_, samples_per_epoch_) != 0) return {};
  EpochRun out;
  const std::int64_t size = batch(), samples = input_->samples;
  out.updates = samples / size;
  if (input_->job->last_batch == LastBatch::keep && samples % size != 0) {
    ++out.updates;
    out.short_batch = samples % size;
  }
  if (out.updates < 1) return {};
  const double an_epoch = samples_per_epoch_ / samples_factor(static_cast<double>(size));
  double most = (until_phase() - progress_) / an_epoch;
  if (schedule && static_cast<std::size_t>(phase_) + 1 < schedule->phases.size()) {
    const Interval& from = schedule->phases[static_cast<std::size_t>(phase_) + 1].from;
    if (from.unit == Interval::Unit::updates) {
      most = std::min(most, (from.amount - static_cast<double>(updates_)) / static_cast<double>(out.updates));
    }
  }
  out.epochs = whole(std::floor(most));
  return out;
}

void ScheduleCursor::advance_epochs(const EpochRun& run, std::int64_t epochs) {
  const auto count = static_cast<double>(epochs);
  const auto size = static_cast<double>(batch());
  const auto full = static_cast<double>(run.full_updates());
  updates_ += epochs * run.updates;
  trained_ += count * (full * size + static_cast<double>(run.short_batch));
  position_ += count * samples_per_epoch_;
  progress_ += count * samples_per_epoch_ / samples_factor(size);
  settle();
}

// Past phases that have ended, batches that are dropped, and the end.
void ScheduleCursor::settle() {
  const auto& schedule = input_->job->schedule;
  const bool carries = input_->job->last_batch == LastBatch::carry;
  for (;;) {
    if (progress_ >= end_ * (1 - 1e-15)) {
      is_finished_ = true;
      return;
    }
    if (schedule && static_cast<std::size_t>(phase_) + 1 < schedule->phases.size()) {
      const Interval& from = schedule->phases[static_cast<std::size_t>(phase_) + 1].from;
      const bool begins = from.unit == Interval::Unit::updates
                              ? static_cast<double>(updates_) >= from.amount
                              : progress_ >= from.amount * samples_per_epoch_;
      if (begins) {
        if (carries) {
          const auto size = static_cast<double>(batch());
          exact_ = from.unit == Interval::Unit::updates
                       ? static_cast<double>(updates_)
                       : exact_ + (progress_ - from_) * samples_factor(size) / size;
          from_ = progress_;
        }
        ++phase_;
        continue;
      }
    }
    if (carries) {
      const std::int64_t now = batch();
      const bool is_damped = schedule && schedule->rule != Schedule::Rule::phases;
      if (is_damped && now != carried_batch_) {
        exact_ = static_cast<double>(updates_);
        from_ = progress_;
      }
      carried_batch_ = now;
      if (run().updates >= 1) return;
      progress_ = until_phase();  // a phase with less than half an update
      continue;
    }
    if (input_->job->last_batch == LastBatch::drop) {
      const double seen = std::fmod(position_, samples_per_epoch_), rest = samples_per_epoch_ - seen;
      const auto size = static_cast<double>(batch());
      if (rest < size) {
        if (seen == 0) {
          throw Error(ErrorKind::input, fmt::format("last_batch: drop leaves no update: the batch of {} is "
                                                    "above the data set",
                                                    batch()));
        }
        position_ += rest;
        progress_ += rest / samples_factor(size);
        continue;
      }
    }
    return;
  }
}

double ScheduleCursor::learning_rate() const {
  const Job& job = *input_->job;
  double rate = input_->learning_rate;
  if (job.schedule && !job.schedule->phases.empty()) {
    const SchedulePhase& phase = job.schedule->phases[static_cast<std::size_t>(phase_)];
    rate = phase.learning_rate.value_or(rate) * phase.learning_rate_factor;
  } else if (job.schedule && job.schedule->max_batch) {
    rate *= std::min(1.0, static_cast<double>(*job.schedule->max_batch) / wanted_batch());
  }
  const LearningRateLaw& law = job.learning_rate;
  const auto next = static_cast<double>(updates_ + 1);
  const double epoch = progress_ / samples_per_epoch_;
  auto place = [&](const Interval& interval) {
    return interval.unit == Interval::Unit::updates ? static_cast<double>(updates_) : epoch;
  };
  switch (law.kind) {
    case LearningRateLaw::Kind::noam:
      return law.factor / std::sqrt(law.dimension) *
             std::min(1 / std::sqrt(next), next * std::pow(law.warmup.amount, -1.5));
    case LearningRateLaw::Kind::steps:
      for (const Interval& at : law.at) rate *= place(at) >= at.amount ? law.factor : 1;
      break;
    case LearningRateLaw::Kind::cosine: {
      constexpr double pi = 3.14159265358979323846;
      rate *= law.least + (1 - law.least) * (1 + std::cos(pi * std::min(1.0, epoch / job.epochs))) / 2;
      break;
    }
    case LearningRateLaw::Kind::constant:
      break;
  }
  if (law.warmup.amount > 0 && place(law.warmup) < law.warmup.amount) {
    const double done = law.warmup.unit == Interval::Unit::updates ? next : epoch;
    rate *= std::min(1.0, done / law.warmup.amount);
  }
  return rate;
}

Error too_many_events() {
  return {
      ErrorKind::input,
      "job: more than 10,000,000 evaluations, checkpoints, logs and changes of batch are not simulated: make "
      "them rarer (job.evaluate.every, job.checkpoint.every, job.log.every, job.schedule), or take fewer "
      "epochs (job.epochs); with --every-step each update counts"};
}

ScheduleTotals totals_of(const ScheduleInput& input) {
  ScheduleTotals totals;
  ScheduleCursor cursor(input);
  for (std::uint64_t events = 0; !cursor.is_finished(); ++events) {
    if (events > ScheduleCursor::most_events) throw too_many_events();
    const UpdateRun run = cursor.run();
    totals.most_workers = std::max(totals.most_workers, run.workers);
    if (const EpochRun ahead = cursor.epochs_ahead(); ahead.epochs > 1) {
      cursor.advance_epochs(ahead, ahead.epochs - 1);
    } else {
      cursor.advance(run.updates);
    }
  }
  totals.updates = cursor.updates();
  totals.samples = cursor.samples();
  totals.epochs = cursor.epochs();
  return totals;
}

}  // namespace foretrain

#include "sim/job/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/job/input_supply.hpp"
#include "sim/job/trigger.hpp"
#include "sim/training/noise.hpp"

namespace foretrain {
namespace {

enum class Kind { started, trained, evaluated, logged, adapted, saved, written, rescaled, failed };

struct Event {
  Kind kind = Kind::started;
  std::uint64_t generation = 0;  // of what the job does: events of before a failure are void
  Elapsed at;
};

// What a failure throws back to.
struct State {
  ScheduleCursor cursor;
  std::optional<Trigger> evaluate, log, checkpoint;
  JobParts parts;
  std::size_t phases = 0, points = 0;
  JobPhase last_phase;
  double below = 0, above = 0;
  std::int64_t next_point = 0, evaluations = 0, checkpoints = 0;
  std::int64_t batch = 0;  // of the phase; a short last one counts as none
  int workers = 0;
  bool has_adapted = false;
};

class Simulation {
 public:
  explicit Simulation(const JobTimelineInput& input)
      : in_(input),
        job_(*input.schedule.job),
        totals_(totals_of(input.schedule)),
        state_{ScheduleCursor(input.schedule), {}, {}, {}, {}, 0, 0, {}, 0, 0, 0, 0, 0, 0, 0, false},
        saved_(state_),
        draws_(input.seed, {1, input.draw}) {
    const auto samples = static_cast<double>(input.schedule.samples);
    if (job_.evaluate) state_.evaluate.emplace(job_.evaluate->every, samples);
    if (job_.log) state_.log.emplace(job_.log->every, samples);
    if (job_.checkpoint) state_.checkpoint.emplace(job_.checkpoint->every, samples);
    constexpr std::int64_t most_points = 256;
    stride_ = std::max<std::int64_t>(1, totals_.updates / most_points);
    state_.next_point = stride_;
    supply_.depth = in_.input != nullptr ? in_.input->prefetch : 0;
  }

  JobTimeline run() {
    if (!state_.cursor.is_finished()) {
      const UpdateRun first = state_.cursor.run();
      state_.workers = first.workers;
      state_.batch = first.full;
    }
    saved_ = state_;
    start(0);
    draw_failure();
    while (!queue_.empty() && !is_done_) {
      handle(queue_.pop());
      if (queue_.processed() > ScheduleCursor::most_events) throw too_many_events();
    }
    out_.total = now_;
    out_.parts = state_.parts;
    out_.failing = now_ - state_.parts.sum();
    out_.updates = state_.cursor.updates();
    out_.samples = state_.cursor.samples();
    out_.epochs = state_.cursor.epochs();
    out_.below = state_.below;
    out_.above = state_.above;
    out_.evaluations = state_.evaluations;
    out_.checkpoints = state_.checkpoints;
    out_.events = queue_.processed();
    return std::move(out_);
  }

 private:
  // The clock moves on, and the workers are paid.
  void move_to(const Elapsed& at) {
    out_.gpu_seconds += state_.workers * (at - now_).in_seconds();
    now_ = at;
  }

  void schedule(Kind kind, const Elapsed& at) {
    Event event{kind, generation_, at};
    // A failure at the very instant at which something ends comes after it.
    queue_.schedule(at.instant(), kind == Kind::failed ? 1u : 0u, event);
  }
  void busy_until(Kind kind, double seconds, Elapsed JobParts::*part) {
    const Elapsed time = Elapsed::seconds(seconds);
    pending_part_ = part;
    pending_time_ = time;
    if (supply_time_ > 0) supply_.pause(seconds, supply_time_);
    schedule(kind, now_ + time);
  }

  void start(double extra) {
    warm_left_ = job_.warmup ? job_.warmup->updates : 0;
    supply_.ready = 0;
    busy_until(Kind::started, job_.startup + extra, &JobParts::startup);
  }

  void handle(const Event& event) {
    if (event.kind == Kind::failed) {
      if (event.generation == failure_generation_) fail(event.at);
      return;
    }
    if (event.generation != generation_) return;
    if (event.kind == Kind::written) {
      move_to(std::max(now_, event.at));
      saved_ = snapshot_;
      writing_ = false;
      if (waits_for_write_) {
        waits_for_write_ = false;
        state_.parts.checkpoint.add(now_ - wait_began_);
        if (state_.cursor.is_finished() && due_.empty()) {
          is_done_ = true;
        } else {
          next();
        }
      }
      return;
    }
    move_to(event.at);
    if (pending_part_ != nullptr) (state_.parts.*pending_part_).add(pending_time_);
    pending_part_ = nullptr;
    switch (event.kind) {
      case Kind::trained:
        after_updates();
        break;
      case Kind::saved:
        after_save();
        break;
      case Kind::evaluated:
        ++state_.evaluations;
        next();
        break;
      case Kind::adapted:
        state_.has_adapted = true;
        next();
        break;
      default:
        next();
    }
  }

  // What is due, then the next updates.
  void next() {
    if (!due_.empty()) {
      const Kind kind = due_.back();
      due_.pop_back();
      if (kind == Kind::evaluated) return busy_until(kind, evaluation_time(), &JobParts::evaluation);
      if (kind == Kind::logged) return busy_until(kind, job_.log->seconds, &JobParts::logging);
      return save();
    }
    if (state_.cursor.is_finished()) {
      if (writing_) return await_write();
      is_done_ = true;
      return;
    }
    const UpdateRun run = state_.cursor.run();
    if (run.adapts && !state_.has_adapted) return adapt();
    const bool grows = run.full != state_.batch;
    if (writing_ && (grows || run.workers != state_.workers)) return await_write();  // as `run` does
    state_.batch = run.full;
    if (run.workers != state_.workers) {
      state_.workers = run.workers;
      draw_failure();
      return busy_until(Kind::rescaled, job_.rescale, &JobParts::rescale);
    }
    if (grows && job_.rebatch > 0) return busy_until(Kind::rescaled, job_.rebatch, &JobParts::rescale);
    train(run);
  }

  void train(const UpdateRun& run) {
    const ShapeTime shape = in_.shapes->of(run.batch, run.workers, is_damped());
    const auto samples = static_cast<double>(in_.schedule.samples);
    const bool is_cold = state_.cursor.position() < samples;
    const int nodes = (run.workers + in_.gpus_per_node - 1) / in_.gpus_per_node;
    supply_time_ = batch_supply_time(in_.input, std::ceil(static_cast<double>(run.batch) / nodes), is_cold);
    const double now = now_.in_seconds(), each = std::max(shape.mean, supply_time_);
    std::int64_t count = run.updates;
    auto limit = [&](const std::optional<Trigger>& trigger) {
      if (trigger) count = std::min(count, trigger->distance(state_.cursor, run, now, each));
    };
    limit(state_.evaluate);
    limit(state_.log);
    limit(state_.checkpoint);
    count = std::min(count, std::max<std::int64_t>(1, state_.next_point - state_.cursor.updates()));
    if (warm_left_ > 0) count = std::min(count, warm_left_);
    if (supply_time_ > 0 && is_cold) {
      const double left = (samples - state_.cursor.position()) / static_cast<double>(run.batch);
      count = std::min(count, std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(left - 1e-9))));
    }
    if (in_.every_step) count = 1;
    if (train_epochs(run, shape, is_cold)) return;
    const double step = in_.every_step && in_.noise ? drawn(shape) : shape.mean;
    const Time exact = Time::seconds(step);
    Elapsed time;
    time.add(exact, count);
    Elapsed waited, warming;
    if (supply_time_ > 0) {
      const double spent = supply_.spend(count, step, supply_time_);
      waited = Elapsed::seconds(std::max(0.0, spent - static_cast<double>(count) * step));
    }
    if (warm_left_ > 0) {
      warming = Elapsed::seconds(static_cast<double>(count) * step * (job_.warmup->factor - 1));
      warm_left_ -= count;
    }
    running_ = {run, count, shape, time, waited, warming, {}, 0};
    schedule(Kind::trained, now_ + time + waited + warming);
  }

  // Whole equal epochs at once, as long as nothing falls into them. False where it is less than two.
  bool train_epochs(const UpdateRun& run, const ShapeTime& shape, bool is_cold) {
    if (in_.every_step || warm_left_ > 0 || supply_time_ > 0 || (in_.input != nullptr && is_cold))
      return false;
    const EpochRun ahead = state_.cursor.epochs_ahead();
    if (ahead.epochs < 2) return false;
    Time last;
    Elapsed an_epoch;
    if (ahead.short_batch > 0) last = Time::seconds(in_.shapes->of(ahead.short_batch, run.workers).mean);
    an_epoch.add(Time::seconds(shape.mean), ahead.full_updates());
    an_epoch.add(last, 1);
    const auto samples = static_cast<double>(in_.schedule.samples),
               updates = static_cast<double>(ahead.updates);
    double most = static_cast<double>(ahead.epochs);
    for (const auto* trigger : {&state_.evaluate, &state_.log, &state_.checkpoint}) {
      if (!*trigger) continue;
      most = std::min(most, (*trigger)->epochs(state_.cursor, updates, samples, an_epoch.in_seconds(),
                                               now_.in_seconds()));
    }
    most = std::min(most, static_cast<double>(state_.next_point - state_.cursor.updates()) / updates);
    if (most < 2) return false;
    const auto count = static_cast<std::int64_t>(most);
    Elapsed time;
    time.add(Time::seconds(shape.mean), count * ahead.full_updates());
    time.add(last, count);
    running_ = {run, count * ahead.updates, shape, time, {}, {}, ahead, count};
    schedule(Kind::trained, now_ + time);
    return true;
  }

  // The learning rate of the last of them is kept.
  void advance_cursor() {
    std::int64_t left = running_.count;
    if (running_.epochs > 1) {
      state_.cursor.advance_epochs(running_.ahead, running_.epochs - 1);
      left = running_.ahead.updates;
    }
    while (left > 0) {
      const std::int64_t now = std::min(left, state_.cursor.run().updates);
      if (now > 1) state_.cursor.advance(now - 1);
      last_rate_ = state_.cursor.learning_rate();
      state_.cursor.advance(1);
      left -= now;
    }
  }

  // A step at a random quantile: the logarithm of the spread is taken for normal on either side of the
  // median.
  double drawn(const ShapeTime& shape) {
    constexpr double z95 = 1.6448536269514722;
    const double z = draws_.normal();
    const double side = z < 0 ? shape.p05 : shape.p95;
    if (shape.median <= 0 || side <= 0) return shape.mean;
    return shape.median * std::exp(std::fabs(z) / z95 * std::log(side / shape.median));
  }

  void after_updates() {
    const UpdateRun& run = running_.run;
    const double rate = state_.cursor.learning_rate();
    state_.parts.training.add(running_.time);
    state_.parts.input.add(running_.waited);
    state_.parts.startup.add(running_.warming);
    const double seconds = running_.time.in_seconds();
    if (running_.shape.median > 0) {
      state_.below += seconds * (1 - running_.shape.low / running_.shape.median);
      state_.above += seconds * (running_.shape.high / running_.shape.median - 1);
    }
    const double epochs_before = state_.cursor.epochs(), samples_before = state_.cursor.samples();
    advance_cursor();
    state_.has_adapted = false;
    JobPhase& phase = phase_of(run);
    if (phase.updates == 0) phase.learning_rate = rate;
    phase.epochs += state_.cursor.epochs() - epochs_before;
    phase.samples += state_.cursor.samples() - samples_before;
    phase.updates += running_.count;
    phase.time += seconds;
    if (!run.is_short || phase.step == 0) phase.step = running_.shape.mean;
    phase.learning_rate_end = last_rate_;
    if (state_.cursor.updates() >= state_.next_point || state_.cursor.is_finished()) add_point(run);
    const double now = now_.in_seconds();
    due_.clear();
    // From the back: evaluated, logged, saved.
    if (state_.checkpoint && state_.checkpoint->take(state_.cursor, now)) due_.push_back(Kind::saved);
    if (state_.log && state_.log->take(state_.cursor, now)) due_.push_back(Kind::logged);
    if (state_.evaluate && state_.evaluate->take(state_.cursor, now)) due_.push_back(Kind::evaluated);
    next();
  }

  void add_point(const UpdateRun& run) {
    JobPoint point{now_.in_seconds(),
                   state_.cursor.epochs(),
                   state_.cursor.updates(),
                   run.full,
                   run.workers,
                   last_rate_,
                   {}};
    if (job_.curve) {
      point.value = curve_at(*job_.curve, 0, static_cast<double>(point.updates), point.epochs);
    }
    out_.progress.push_back(point);
    state_.points = out_.progress.size();
    state_.next_point = state_.cursor.updates() + stride_;
  }

  bool is_damped() const { return job_.schedule && job_.schedule->rule != Schedule::Rule::phases; }

  // The phase that these updates belong to, the rest of an epoch by the batch that it is the rest of. Under a
  // damping rule one ends when its batch has grown by a tenth.
  JobPhase& phase_of(const UpdateRun& run) {
    bool is_new = out_.phases.empty();
    if (!is_new) {
      const JobPhase& last = out_.phases.back();
      constexpr double grown = 1.1;
      is_new = last.workers != run.workers || phase_index_ != run.phase ||
               (is_damped() && static_cast<double>(run.full) >= grown * static_cast<double>(last.batch)) ||
               (!is_damped() && last.batch != run.full);
    }
    if (is_new) {
      out_.phases.emplace_back();
      out_.phases.back().batch = run.full;
      out_.phases.back().workers = run.workers;
      phase_index_ = run.phase;
    }
    state_.phases = out_.phases.size();
    return out_.phases.back();
  }

  double evaluation_time() const {
    const Evaluation& evaluation = *job_.evaluate;
    const int sharing = evaluation.on_one_worker ? 1 : std::max(1, state_.workers);
    const std::int64_t trained = running_.run.batch / std::max(1, running_.run.workers);
    const std::int64_t batch =
        evaluation.batch_per_worker > 0 ? evaluation.batch_per_worker : full_share(trained);
    const std::int64_t a_pass = batch * sharing;
    const std::int64_t passes = (evaluation.samples + a_pass - 1) / a_pass;
    return in_.shapes->passes(batch, passes);
  }
  // An epoch's last batch is short; evaluation goes on with the phase's.
  std::int64_t full_share(std::int64_t trained) const {
    if (out_.phases.empty() || !running_.run.is_short) return std::max<std::int64_t>(1, trained);
    const JobPhase& phase = out_.phases.back();
    return std::max<std::int64_t>(1, share_of(phase.batch, phase.workers));
  }

  // The loss over the data, by the workers and the batch that were: what it says decides on the next.
  void adapt() {
    const std::int64_t share = share_of(state_.batch, state_.workers);
    const std::int64_t a_pass = share * state_.workers;
    const std::int64_t passes = (job_.schedule->loss_samples + a_pass - 1) / a_pass;
    busy_until(Kind::adapted, in_.shapes->passes(share, passes), &JobParts::adaptation);
  }

  void save() {
    const Checkpoint& checkpoint = *job_.checkpoint;
    if (!checkpoint.asynchronous) {
      const double rate = checkpoint.write.bytes_per_second();
      return busy_until(Kind::saved, rate > 0 ? in_.checkpoint_bytes / rate : 0, &JobParts::checkpoint);
    }
    if (writing_) {  // the buffer is still being written: training waits
      due_.push_back(Kind::saved);
      return await_write();
    }
    const double rate = checkpoint.snapshot.bytes_per_second();
    busy_until(Kind::saved, rate > 0 ? in_.checkpoint_bytes / rate : 0, &JobParts::checkpoint);
  }

  void await_write() {
    waits_for_write_ = true;
    wait_began_ = now_;
  }

  void after_save() {
    ++state_.checkpoints;
    keep(job_.checkpoint->asynchronous ? snapshot_ : saved_);
    if (job_.checkpoint->asynchronous) {
      writing_ = true;
      const double rate = job_.checkpoint->write.bytes_per_second();
      schedule(Kind::written, now_ + Elapsed::seconds(rate > 0 ? in_.checkpoint_bytes / rate : 0));
    }
    next();
  }

  void keep(State& into) {
    state_.phases = out_.phases.size();
    state_.points = out_.progress.size();
    if (!out_.phases.empty()) state_.last_phase = out_.phases.back();
    into = state_;
  }

  void draw_failure() {
    if (!job_.failures) return;
    const double units = job_.failures->unit == Failures::Unit::gpu ? state_.workers
                         : job_.failures->unit == Failures::Unit::node
                             ? std::ceil(static_cast<double>(state_.workers) / in_.gpus_per_node)
                             : 1;
    const double mean = job_.failures->mean_time / std::max(1.0, units);
    ++failure_generation_;
    const double after = -std::log(1 - draws_.uniform()) * mean;
    constexpr double century = 3.2e9;  // no job lasts so long, and time has a range
    if (after > century) return;
    const Elapsed at = now_ + Elapsed::seconds(after);
    queue_.schedule(at.instant(), 1u, Event{Kind::failed, failure_generation_, at});
  }

  void fail(const Elapsed& at) {
    constexpr std::int64_t too_many = 1'000'000;
    since_progress_ = saved_.cursor.updates() > last_saved_updates_ ? 0 : since_progress_ + 1;
    last_saved_updates_ = saved_.cursor.updates();
    constexpr std::int64_t hopeless = 10'000;
    if (++out_.failures > too_many || since_progress_ > hopeless) {
      throw Error(
          ErrorKind::input,
          fmt::format("job: never ends: after {} failures in {} it has {} updates done; save more often "
                      "(job.checkpoint) or make failures rarer",
                      out_.failures, format_time(now_.in_seconds()), saved_.cursor.updates()));
    }
    move_to(std::max(now_, at));
    ++generation_;
    writing_ = waits_for_write_ = false;
    due_.clear();
    pending_part_ = nullptr;
    const int workers = state_.workers;
    state_ = saved_;
    out_.phases.resize(state_.phases);
    if (!out_.phases.empty()) out_.phases.back() = state_.last_phase;
    out_.progress.resize(state_.points);
    state_.workers = workers;  // the next updates may want others: then they are changed
    const bool has_checkpoint = job_.checkpoint && state_.checkpoints > 0;
    const double rate = has_checkpoint ? job_.checkpoint->read.bytes_per_second() : 0;
    const double reading = rate > 0 ? in_.checkpoint_bytes / rate : 0;
    const double restart = job_.failures->restart + reading;
    out_.restarting += restart + job_.startup;
    // A restart counts as failing, not as start-up.
    warm_left_ = job_.warmup ? job_.warmup->updates : 0;
    supply_.ready = 0;
    schedule(Kind::started, now_ + Elapsed::seconds(restart + job_.startup));
    draw_failure();
  }

  struct Running {
    UpdateRun run;
    std::int64_t count = 0;
    ShapeTime shape;
    Elapsed time, waited, warming;
    EpochRun ahead;           // of which `epochs` run at once
    std::int64_t epochs = 0;  // 0: updates of one epoch
  };

  const JobTimelineInput& in_;
  const Job& job_;
  ScheduleTotals totals_;
  State state_, saved_;
  State snapshot_ = state_;
  RandomStream draws_;
  EventQueue<Event, JobTime> queue_;
  Elapsed now_;
  std::uint64_t generation_ = 1, failure_generation_ = 0;
  Running running_;
  std::vector<Kind> due_;  // last first
  Elapsed JobParts::*pending_part_ = nullptr;
  Elapsed pending_time_, wait_began_;
  Supply supply_;
  double supply_time_ = 0, last_rate_ = 0;
  std::int64_t warm_left_ = 0, stride_ = 1;
  std::int64_t since_progress_ = 0, last_saved_updates_ = -1;
  int phase_index_ = 0;
  bool writing_ = false, waits_for_write_ = false, is_done_ = false;
  JobTimeline out_;
};

}  // namespace

Elapsed JobParts::sum() const {
  return training + input + evaluation + checkpoint + startup + rescale + logging + adaptation;
}

JobTimeline simulate_timeline(const JobTimelineInput& input) {
  return Simulation(input).run();
}

}  // namespace foretrain

#include "calibrate/in_context.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>

#include "calibrate/statistics.hpp"

namespace foretrain::calibrate {
namespace {

using device::Event;
using device::StreamKind;

// The parts [first, last) lie between two events.
struct Interval {
  Event from, to;
  std::size_t first = 0, last = 0;
};

struct IssuedStep {
  std::vector<Interval> intervals;
  EventPool events;
  Event end;
  bool keep = true;
  explicit IssuedStep(device::Worker& worker) : events(worker) {}
};

class Recorder {
 public:
  Recorder(Session& session, StepPlan& plan, const InContextOptions& options, bool gated, int stride)
      : session_(session), plan_(plan), options_(options), gated_(gated), stride_(stride) {
    singles_.resize(plan.size());
    for (int depth = 0; depth < 4; ++depth) steps_.emplace_back(session.worker);
  }

  // `count` steps in a row; the first of them only fill the queue and are left out.
  void run_block(int count) {
    if (gated_) {
      for (int step = 0; step < count; ++step) {
        IssuedStep& issued = steps_[0];
        issue_gated(issued);
        read(issued);
      }
      return;
    }
    // Steps s + 1 and s + 2 are queued or running while step s is read.
    std::deque<IssuedStep*> queued;
    for (int step = 0; step < count; ++step) {
      session_.check();
      IssuedStep& issued = steps_[static_cast<std::size_t>(step) % steps_.size()];
      const bool stayed_full = issue(issued, queued.empty() ? nullptr : queued.back());
      issued.keep = step > 0 && stayed_full;
      if (step > 0 && !stayed_full) ++drained_;
      queued.push_back(&issued);
      if (queued.size() == 3) {
        await(session_, queued.front()->end);
        read(*queued.front());
        queued.pop_front();
      }
    }
    session_.worker.synchronize(StreamKind::compute);
    for (IssuedStep* issued : queued) read(*issued);
    checkpoint_.reset();
  }

  // Single parts that every step marks as often as `least` asks?
  bool enough(int least) const {
    return std::all_of(singles_.begin(), singles_.end(), [least](const std::vector<double>& values) {
      return static_cast<int>(values.size()) >= least;
    });
  }

  InContextTimes result() const {
    InContextTimes times;
    times.event_gap_in_context = event_gap_in_context();
    const double event_cost =
        event_cost_between(options_.event_gap, stretches_.empty(), times.event_gap_in_context);
    double squares = 0;
    for (const std::vector<double>& values : singles_) {
      const Sample raw = summarize(values);
      times.parts.push_back(less(raw, event_cost));
      times.sum += times.parts.back().median;
      const double half = (raw.high - raw.low) / 2;
      squares += half * half;
    }
    times.relative_error = times.sum > 0 ? std::sqrt(squares) / times.sum : 1;
    times.gated = gated_;
    times.stride = stride_;
    times.steps = step_;
    times.drained = drained_;
    return times;
  }

  int drained() const { return drained_; }
  int steps() const { return step_; }

 private:
  Event mark(IssuedStep& issued) {
    const Event event = issued.events.take();
    session_.worker.record(event, StreamKind::compute);
    return event;
  }

  // Events go between parts as marked; the step before lends its last event as this one's first. Tells
  // whether the queue never ran low: each time so many launches have been issued, the device has not yet done
  // with those before them.
  bool issue(IssuedStep& issued, const IssuedStep* before) {
    const int watch = std::min(200, plan_.launches() / 2);
    bool full = true;
    start(issued);
    const std::vector<bool> marked = marked_boundaries(plan_.size(), stride_, step_++);
    Event from = before ? before->end : mark(issued);
    std::size_t first = 0;
    for (std::size_t slot = 0; slot < plan_.size(); ++slot) {
      plan_.issue(slot);
      launches_ += plan_.slots()[slot].launches;
      if (!marked[slot + 1]) continue;
      const Event to = mark(issued);
      issued.intervals.push_back({from, to, first, slot + 1});
      from = to;
      first = slot + 1;
      if (launches_ < watch) continue;
      if (checkpoint_ && session_.worker.reached(*checkpoint_)) full = false;
      checkpoint_ = to;
      launches_ = 0;
    }
    issued.end = from;
    return full;
  }

  void issue_gated(IssuedStep& issued) {
    start(issued);
    const std::vector<bool> marked = marked_boundaries(plan_.size(), stride_, step_++);
    std::size_t first = 0;
    while (first < plan_.size()) {
      session_.check();
      session_.worker.synchronize(StreamKind::compute);
      hold_compute(session_.worker,
                   longest_hold(plan_.slots()[first].launches, options_.expected_host / plan_.launches()));
      Event from = mark(issued);
      int launches = 0;
      const std::size_t begin = first;
      std::size_t slot = begin;
      const auto fits = [&] {
        return slot == begin || launches + plan_.slots()[slot].launches <= gate_launches;
      };
      while (slot < plan_.size() && fits()) {  // at least one part, however many launches it has
        launches += plan_.slots()[slot].launches;
        plan_.issue(slot);
        ++slot;
        const bool last = slot == plan_.size() || !fits();
        if (!marked[slot] && !last) continue;
        const Event to = mark(issued);
        issued.intervals.push_back({from, to, first, slot});
        from = to;
        first = slot;
      }
      session_.worker.open_gate();
    }
    session_.worker.synchronize(StreamKind::compute);
  }

  void start(IssuedStep& issued) {
    issued.intervals.clear();
    issued.events.reset();
    issued.keep = true;
  }

  void read(const IssuedStep& issued) {
    if (!issued.keep) return;
    for (const Interval& interval : issued.intervals) {
      const double seconds = session_.worker.seconds_between(interval.from, interval.to);
      if (interval.last - interval.first == 1)
        singles_[interval.first].push_back(seconds);
      else
        stretches_[{interval.first, interval.last}].push_back(seconds);
    }
  }

  // An interval over m parts holds one event's cost, the m intervals of its parts m of them:
  // cost = (sum of the parts' raw medians - raw median of the stretch) / (m - 1), over all stretches.
  double event_gap_in_context() const {
    double excess = 0, events = 0;
    for (const auto& [bounds, values] : stretches_) {
      double parts = 0;
      for (std::size_t slot = bounds.first; slot < bounds.second; ++slot)
        parts += summarize(singles_[slot]).median;
      const double weight = std::sqrt(static_cast<double>(values.size()));
      excess += weight * (parts - summarize(values).median);
      events += weight * static_cast<double>(bounds.second - bounds.first - 1);
    }
    return events > 0 ? excess / events : 0;
  }

  Session& session_;
  StepPlan& plan_;
  const InContextOptions& options_;
  bool gated_;
  int stride_;
  std::deque<IssuedStep> steps_;
  std::vector<std::vector<double>> singles_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> stretches_;
  std::optional<Event> checkpoint_;
  int launches_ = 0;  // since the checkpoint
  int step_ = 0;
  int drained_ = 0;
};

}  // namespace

double event_cost_between(double on_chain, bool alone, double in_context) {
  if (alone || on_chain <= 0) return on_chain;
  return std::clamp(in_context, 0.6 * on_chain, 1.4 * on_chain);
}

std::vector<bool> marked_boundaries(std::size_t parts, int stride, int step) {
  std::vector<bool> marked(parts + 1, false);
  const auto period = static_cast<std::size_t>(std::max(stride, 1));
  const auto phase = static_cast<std::size_t>(step);
  for (std::size_t boundary = 0; boundary <= parts; ++boundary) {
    if (period == 1)
      marked[boundary] = phase % 4 != 3 || (boundary + phase / 4) % 4 == 0;
    else
      marked[boundary] = (boundary + phase) % period <= 1;
  }
  marked.front() = marked.back() = true;
  return marked;
}

InContextTimes measure_in_context(Session& session, StepPlan& plan, const InContextOptions& options) {
  const double parts = static_cast<double>(plan.size());
  // With few events the neighbours of a part are as in training; where events are a hundredth of the step at
  // most, all boundaries are marked, for a long step leaves time for few repetitions.
  const double event_cost = std::max(options.event_gap, 1e-6);
  const int stride = parts * event_cost <= 0.01 * options.expected_step ? 1 : 4;
  bool gated = options.expected_host > 0.8 * options.expected_step;

  Recorder recorder(session, plan, options, gated, stride);
  Recorder* current = &recorder;
  std::optional<Recorder> gated_recorder;
  // A block's first step is left out, and one in four marks but few parts: five yield three of each.
  const int block = stride == 1 ? repetitions_in(options.seconds, options.expected_step, 5, 8) : 13;
  const double start = session.clock.now();
  const auto in_time = [&] { return session.clock.now() - start < options.seconds; };
  while (true) {
    current->run_block(block);
    if (!gated && current->drained() * 4 > current->steps()) {
      // The host does not keep the queue full after all.
      gated = true;
      current = &gated_recorder.emplace(session, plan, options, true, stride);
      continue;
    }
    if (!current->enough(in_time() ? options.least_singles : 3)) continue;
    if (!in_time() || current->result().relative_error <= options.relative_error) break;
  }
  return current->result();
}

HostTimes measure_host(Session& session, StepPlan& plan, double seconds, double expected_step) {
  Clock& clock = session.clock;
  const double reading = reading_cost(clock);
  std::vector<std::vector<double>> parts(plan.size());
  HostTimes times;
  // Two steps for one that counts as a whole.
  const int least = repetitions_in(seconds, 2 * expected_step, 2, 5);
  const StopRule rule{
      .relative_error = 0.005, .least = 11, .most = 200, .seconds = seconds, .least_in_time = least};
  const double start = clock.now();
  for (int repetition = 0; !rule.done(times.steps, clock.now() - start); ++repetition) {
    session.check();
    session.worker.synchronize(StreamKind::compute);
    // Readings between the parts in one repetition, only around the whole in the next.
    const bool each = repetition % 2 == 0;
    double step = 0;
    int launches = 0;
    double before = clock.now();
    for (std::size_t slot = 0; slot < plan.size(); ++slot) {
      if (launches > 0 && launches + plan.slots()[slot].launches > gate_launches) {
        if (!each) step += clock.now() - before - reading;
        session.worker.synchronize(StreamKind::compute);
        launches = 0;
        before = clock.now();
      }
      launches += plan.slots()[slot].launches;
      plan.issue(slot);
      if (each) {
        const double after = clock.now();
        parts[slot].push_back(std::max(0.0, after - before - reading));
        before = after;
      }
    }
    if (!each) times.steps.push_back(step + clock.now() - before - reading);
  }
  session.worker.synchronize(StreamKind::compute);
  for (std::vector<double>& values : parts) times.parts.push_back(summarize(std::move(values)));
  times.step = summarize(times.steps);
  return times;
}

GatedStep measure_gated_step(Session& session, StepPlan& plan, double event_gap, double seconds,
                             double expected_step, double expected_host) {
  device::Worker& worker = session.worker;
  EventPool events(worker);
  GatedStep result;
  const int least = repetitions_in(seconds, expected_step, 2, 5);
  const StopRule rule{
      .relative_error = 0.002, .least = 15, .most = 200, .seconds = seconds, .least_in_time = least};
  const double start = session.clock.now();
  while (!rule.done(result.steps, session.clock.now() - start)) {
    double step = 0;
    std::size_t slot = 0;
    while (slot < plan.size()) {
      session.check();
      worker.synchronize(StreamKind::compute);
      hold_compute(worker, longest_hold(plan.slots()[slot].launches, expected_host / plan.launches()));
      events.reset();
      const Event from = events.take(), to = events.take();
      worker.record(from, StreamKind::compute);
      int launches = 0;
      do {
        launches += plan.slots()[slot].launches;
        plan.issue(slot++);
      } while (slot < plan.size() && launches + plan.slots()[slot].launches <= gate_launches);
      worker.record(to, StreamKind::compute);
      worker.open_gate();
      worker.synchronize(StreamKind::compute);
      step += worker.seconds_between(from, to) - event_gap;
    }
    result.steps.push_back(step);
  }
  result.step = summarize(result.steps);
  return result;
}

}  // namespace foretrain::calibrate

#include "calibrate/interference.hpp"

#include <algorithm>
#include <cmath>

#include "calibrate/statistics.hpp"
#include "sim/base/error.hpp"

namespace foretrain::calibrate {
namespace {

using device::Communicator;
using device::ElementType;
using device::Event;
using device::StreamKind;

// Times of one repetition on one rank.
struct Overlap {
  double backward = 0;
  double covered = 0;     // of it, from the first collective's start to the last one's end
  double collective = 0;  // median of those inside backward; 0 where there is none
};

// Issues the pass and the collectives in step, so that neither queue is empty or full before the other:
// `share` of the collectives have been issued when that share of the launches has.
Overlap run_beside(Session& session, RankGroup& group, Communicator& communicator, device::Buffer buffer,
                   StepPlan& plan, EventPool& events, std::int64_t bytes, int collectives,
                   bool with_compute) {
  device::Worker& worker = session.worker;
  session.check();
  worker.synchronize();
  events.reset();
  const Event start = events.take();
  hold_compute(worker);
  worker.record(start, StreamKind::compute);
  worker.wait(StreamKind::communication, start);
  bool gate_closed = true;
  const auto open = [&] {
    if (!gate_closed) return;
    group.barrier();
    worker.open_gate();
    gate_closed = false;
  };

  std::vector<Event> ends;
  int launches = 0;
  // Events take room in the queue as well.
  const auto open_where_full = [&] {
    if (launches + 2 * static_cast<int>(ends.size()) > gate_launches) open();
  };
  const auto reduce_until = [&](double share) {
    while (static_cast<int>(ends.size()) < static_cast<int>(std::ceil(share * collectives))) {
      open_where_full();
      communicator.enqueue(CollectiveKind::all_reduce, buffer, bytes, ElementType::fp32);
      ends.push_back(events.take());
      worker.record(ends.back(), StreamKind::communication);
    }
  };
  // A head start, for the first collective also brings the ranks together.
  reduce_until(collectives > 0 ? std::min(1.0, 3.0 / collectives) : 0);
  Event backward_from = start, backward_to = start;
  if (with_compute) {
    for (std::size_t slot = 0; slot < plan.backward_end(); ++slot) {
      if (slot == plan.first_backward()) {
        backward_from = events.take();
        worker.record(backward_from, StreamKind::compute);
      }
      launches += plan.slots()[slot].launches;
      open_where_full();
      plan.issue(slot);
      reduce_until(static_cast<double>(slot + 1) / static_cast<double>(plan.backward_end()));
    }
    backward_to = events.take();
    worker.record(backward_to, StreamKind::compute);
  }
  reduce_until(1);
  open();
  await(session, backward_to);
  if (!ends.empty()) await(session, ends.back());

  Overlap overlap;
  if (with_compute) overlap.backward = worker.seconds_between(backward_from, backward_to);
  std::vector<double> inside;
  for (std::size_t call = 1; call < ends.size(); ++call) {
    if (with_compute && (worker.seconds_between(backward_from, ends[call - 1]) < 0 ||
                         worker.seconds_between(ends[call], backward_to) < 0))
      continue;
    inside.push_back(worker.seconds_between(ends[call - 1], ends[call]));
  }
  if (with_compute && !ends.empty()) {
    // Collectives begin before the pass; where they do not outlast it, the rest ran alone.
    const double short_by = worker.seconds_between(ends.back(), backward_to);
    overlap.covered = std::clamp(overlap.backward - std::max(short_by, 0.0), 0.0, overlap.backward);
  }
  overlap.collective = summarize(std::move(inside)).median;
  return overlap;
}

// In the covered time C of a pass that takes T alone and B beside, the work of T - (B - C) is done:
// slowdown = C / (T - (B - C)).
double slowdown(double beside, double covered, double alone) {
  const double work = alone - (beside - covered);
  return work > 0 ? covered / work : 1;
}

// Calls beside a pass, and by themselves. Forward counts too, for collectives run from the start; a third
// more, for both become slower.
struct Calls {
  double pass = 0;  // seconds
  int beside = 0, alone = 0;
};
Calls calls_of(const InterferenceOptions& options) {
  Calls calls;
  calls.pass = options.backward * 1.5;
  calls.beside =
      static_cast<int>(std::clamp(1.3 * calls.pass / std::max(options.collective, 1e-6), 8.0, 1500.0));
  calls.alone = std::min(calls.beside, repetitions_in(calls.pass, options.collective, 8, 50));
  return calls;
}

Sample ratios(const std::vector<double>& beside, const std::vector<double>& alone) {
  std::vector<double> values;
  const double base = summarize(alone).median;
  if (base > 0)
    for (const double value : beside)
      if (value > 0) values.push_back(value / base);
  return summarize(std::move(values));
}

}  // namespace

double seconds_of_repetition(const InterferenceOptions& options) {
  const Calls calls = calls_of(options);
  constexpr double slower = 2;
  const double beside = slower * std::max(calls.pass, calls.beside * options.collective);
  return beside + calls.pass + calls.alone * options.collective;
}

InterferenceEntry measure_interference(Session& session, RankGroup& group, Communicator& communicator,
                                       device::Buffer buffer, StepPlan& plan,
                                       const InterferenceOptions& options) {
  EventPool events(session.worker);
  const Calls calls = calls_of(options);
  std::vector<double> backward_beside, covered, backward_alone, collective_beside, collective_alone;
  for (int repetition = 0; repetition <= options.repetitions; ++repetition) {
    const Overlap beside =
        run_beside(session, group, communicator, buffer, plan, events, options.bytes, calls.beside, true);
    const Overlap alone =
        run_beside(session, group, communicator, buffer, plan, events, options.bytes, 0, true);
    const Overlap collective =
        run_beside(session, group, communicator, buffer, plan, events, options.bytes, calls.alone, false);
    const double values[] = {group.greatest(beside.backward), group.greatest(alone.backward),
                             group.greatest(beside.collective), group.greatest(collective.collective),
                             group.least(beside.covered)};
    if (repetition == 0) continue;  // warm-up
    backward_beside.push_back(values[0]);
    backward_alone.push_back(values[1]);
    collective_beside.push_back(values[2]);
    collective_alone.push_back(values[3]);
    covered.push_back(values[4]);
  }
  InterferenceEntry entry;
  entry.ranks = group.ranks();
  entry.bytes = options.bytes;
  const double alone = summarize(backward_alone).median;
  std::vector<double> slowdowns;
  for (std::size_t i = 0; i < covered.size(); ++i)
    if (covered[i] > 0.3 * backward_beside[i])
      slowdowns.push_back(slowdown(backward_beside[i], covered[i], alone));
  entry.compute_slowdown = summarize(std::move(slowdowns));
  entry.collective_slowdown = ratios(collective_beside, collective_alone);
  return entry;
}

double time_backward(Session& session, RankGroup& group, Communicator& communicator, StepPlan& plan) {
  EventPool events(session.worker);
  double least = 0;
  for (int repetition = 0; repetition < 4; ++repetition) {
    const double seconds =
        group.greatest(run_beside(session, group, communicator, {}, plan, events, 0, 0, true).backward);
    if (repetition > 0) least = repetition == 1 ? seconds : std::min(least, seconds);
  }
  return least;
}

}  // namespace foretrain::calibrate

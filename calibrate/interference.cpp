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

Sample ratios(const std::vector<double>& beside, const std::vector<double>& alone) {
  std::vector<double> values;
  const double base = summarize(alone).median;
  if (base > 0)
    for (const double value : beside)
      if (value > 0) values.push_back(value / base);
  return summarize(std::move(values));
}

}  // namespace

InterferenceEntry measure_interference(Session& session, RankGroup& group, Communicator& communicator,
                                       device::Buffer buffer, StepPlan& plan,
                                       const InterferenceOptions& options) {
  EventPool events(session.worker);
  // Forward counts too, for collectives run from the start; a third more, for both become slower.
  const double pass = options.backward * 1.5;
  const int collectives =
      static_cast<int>(std::clamp(1.3 * pass / std::max(options.collective, 1e-6), 8.0, 1500.0));
  std::vector<double> backward_beside, covered, backward_alone, collective_beside, collective_alone;
  for (int repetition = 0; repetition <= options.repetitions; ++repetition) {
    const Overlap beside =
        run_beside(session, group, communicator, buffer, plan, events, options.bytes, collectives, true);
    const Overlap alone =
        run_beside(session, group, communicator, buffer, plan, events, options.bytes, 0, true);
    const Overlap collective = run_beside(session, group, communicator, buffer, plan, events, options.bytes,
                                          std::min(collectives, 50), false);
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

std::vector<std::size_t> bucket_ready_slots(const StepPlan& plan, const Model& model,
                                            const std::vector<Bucket>& buckets) {
  std::vector<std::size_t> ready;
  std::size_t last = plan.first_backward();
  for (const Bucket& bucket : buckets) {
    // In order: a bucket never goes before the one in front of it.
    for (const int parameter : bucket.parameters)
      last =
          std::max(last, plan.completes_weights(model.parameters[static_cast<std::size_t>(parameter)].layer));
    ready.push_back(last);
  }
  if (last >= plan.backward_end())
    throw Error(ErrorKind::failure, "nothing in the backward pass makes the gradients of a bucket");
  return ready;
}

namespace {

// As a training loop waits: one that polls without a pause keeps the driver from the other ranks of its
// process.
void await_gently(Session& session, Event event) {
  while (!session.worker.reached(event)) {
    session.clock.rest(50e-6);
    session.check();
  }
}

}  // namespace

std::vector<double> run_ddp_steps(Session& session, RankGroup& group, Communicator& communicator,
                                  StepPlan& plan, const Model& model, const std::vector<Bucket>& buckets,
                                  int steps) {
  device::Worker& worker = session.worker;
  const std::vector<std::size_t> ready = bucket_ready_slots(plan, model, buckets);
  const device::Buffer gradients = plan.program().gradients();
  std::vector<device::Buffer> slices;
  for (const Bucket& bucket : buckets) {
    // Parameters lie in reverse registration order, so a bucket is one stretch, alignment gaps included.
    std::int64_t first = std::int64_t{1} << 62, last = 0;
    for (const int parameter : bucket.parameters) {
      const std::int64_t offset = plan.program().gradient_offset(parameter);
      first = std::min(first, offset);
      last = std::max(last, offset + model.parameters[static_cast<std::size_t>(parameter)].elements);
    }
    slices.push_back({static_cast<std::byte*>(gradients.data) + first * 4, (last - first) * 4});
  }
  plan.program().set_gradient_scale(1.0 / group.ranks());

  EventPool events(worker);
  std::vector<Event> ends;
  std::vector<Event> handover(buckets.size() + 1);
  for (Event& event : handover) event = events.take();
  constexpr int warm_up = 5;
  group.barrier();
  for (int step = 0; step < steps + warm_up; ++step) {
    session.check();
    std::size_t bucket = 0;
    for (std::size_t slot = 0; slot < plan.size(); ++slot) {
      if (slot == plan.backward_end() && bucket > 0) {
        const Event reduced = handover.back();
        worker.record(reduced, StreamKind::communication);
        worker.wait(StreamKind::compute, reduced);
      }
      plan.issue(slot);
      for (; bucket < buckets.size() && ready[bucket] == slot; ++bucket) {
        worker.record(handover[bucket], StreamKind::compute);
        worker.wait(StreamKind::communication, handover[bucket]);
        communicator.enqueue(CollectiveKind::all_reduce, slices[bucket], slices[bucket].bytes,
                             ElementType::fp32);
      }
    }
    ends.push_back(events.take());
    worker.record(ends.back(), StreamKind::compute);
    if (step >= 2) await_gently(session, ends[ends.size() - 3]);
  }
  worker.synchronize();
  communicator.check();
  plan.program().set_gradient_scale(1);
  std::vector<double> times;
  for (std::size_t end = warm_up; end < ends.size(); ++end)
    times.push_back(worker.seconds_between(ends[end - 1], ends[end]));
  return times;
}

}  // namespace foretrain::calibrate

#include "calibrate/launch_costs.hpp"

#include <algorithm>

#include "calibrate/statistics.hpp"

namespace foretrain::calibrate {
namespace {

using device::Event;
using device::StreamKind;

constexpr int chain_length = 100;
constexpr int chains = 25;
constexpr double spin = 8e-6;  // of the order of a small layer

// Seconds of one link of a chain of kernels (spinning, or empty for 0) in a full queue.
double chain_period(Session& session, EventPool& events, double seconds, bool with_events) {
  device::Worker& worker = session.worker;
  events.reset();
  const auto kernel = [&] {
    if (seconds > 0)
      worker.spin_kernel(StreamKind::compute, seconds);
    else
      worker.empty_kernel(StreamKind::compute);
  };
  hold_compute(worker);
  const Event first = events.take();
  Event last = first;
  worker.record(first, StreamKind::compute);
  for (int link = 0; link < chain_length; ++link) {
    kernel();
    if (with_events || link + 1 == chain_length) {
      last = events.take();
      worker.record(last, StreamKind::compute);
    }
  }
  worker.open_gate();
  worker.synchronize(StreamKind::compute);
  return worker.seconds_between(first, last) / chain_length;
}

// Time from one event to another with one empty kernel between: on the compute stream, or handed over to the
// communication stream.
double handover(Session& session, EventPool& events, bool to_other_stream) {
  device::Worker& worker = session.worker;
  events.reset();
  const StreamKind stream = to_other_stream ? StreamKind::communication : StreamKind::compute;
  hold_compute(worker);
  const Event first = events.take(), last = events.take();
  worker.record(first, StreamKind::compute);
  if (to_other_stream) worker.wait(stream, first);
  worker.empty_kernel(stream);
  worker.record(last, stream);
  worker.open_gate();
  worker.synchronize();
  return worker.seconds_between(first, last);
}

// Launches that the queue takes while the device is busy, before the host blocks.
int queue_depth(Session& session) {
  device::Worker& worker = session.worker;
  constexpr double busy = 0.05;
  constexpr int limit = 4000;
  worker.synchronize();
  const double start = session.clock.now();
  worker.spin_kernel(StreamKind::compute, busy);
  int launched = 1;
  int depth = 0;
  while (launched < limit) {
    const double before = session.clock.now();
    worker.empty_kernel(StreamKind::compute);
    const double after = session.clock.now();
    // Blocked until the long kernel ended: the queue was full. A launch that a busy host delays is shorter.
    if (after - before > busy / 10 && after - start > busy * 0.8) {
      depth = launched;
      break;
    }
    if (after - start > busy * 0.8) break;  // the host is too slow to fill it in time
    ++launched;
  }
  worker.synchronize();
  return depth;
}

}  // namespace

LaunchCosts measure_launch_costs(Session& session) {
  device::Worker& worker = session.worker;
  Clock& clock = session.clock;
  const double reading = reading_cost(clock);
  EventPool events(worker);
  LaunchCosts costs;

  // Kernels are loaded at their first launch, which may wait for the device: never behind a gate.
  for (const StreamKind stream : {StreamKind::compute, StreamKind::communication}) {
    worker.empty_kernel(stream);
    worker.spin_kernel(stream, spin);
  }
  worker.synchronize();
  for (int warm = 0; warm < 3; ++warm) chain_period(session, events, spin, true);

  std::vector<double> launches, records;
  for (int repetition = 0; repetition < chains; ++repetition) {
    session.check();
    worker.synchronize();
    double before = clock.now();
    for (int launch = 0; launch < 20; ++launch) worker.empty_kernel(StreamKind::compute);
    launches.push_back(std::max(0.0, clock.now() - before - reading) / 20);
    worker.synchronize();
    events.reset();
    std::vector<Event> marks(20);
    for (Event& mark : marks) mark = events.take();
    before = clock.now();
    for (const Event mark : marks) worker.record(mark, StreamKind::compute);
    records.push_back(std::max(0.0, clock.now() - before - reading) / 20);
  }
  costs.launch = summarize(launches);
  costs.event_record = summarize(records);

  // With and without events in turn, so that a drift of the clock falls out of the difference.
  std::vector<double> gaps, event_gaps, empty_periods;
  for (int repetition = 0; repetition < chains; ++repetition) {
    session.check();
    const double plain = chain_period(session, events, spin, false);
    const double marked = chain_period(session, events, spin, true);
    // Both hold the chain's last event: plain = period + event / n, marked = period + event.
    const double event = std::max(0.0, (marked - plain) * chain_length / (chain_length - 1));
    event_gaps.push_back(event);
    gaps.push_back(std::max(0.0, plain - event / chain_length - spin));
    empty_periods.push_back(std::max(0.0, chain_period(session, events, 0, false) - event / chain_length));
  }
  costs.gap = summarize(gaps);
  costs.event_gap = summarize(event_gaps);

  std::vector<double> waits;
  for (int repetition = 0; repetition < chains; ++repetition) {
    session.check();
    const double same = handover(session, events, false);
    waits.push_back(std::max(0.0, handover(session, events, true) - same));
  }
  costs.event_wait = summarize(waits);

  const double empty_period = summarize(empty_periods).median;
  std::vector<double> latencies;
  for (int repetition = 0; repetition < 2 * chains; ++repetition) {
    session.check();
    worker.synchronize();
    events.reset();
    const Event end = events.take();
    const double before = clock.now();
    worker.empty_kernel(StreamKind::compute);
    worker.record(end, StreamKind::compute);
    while (!worker.reached(end)) {
    }
    latencies.push_back(std::max(0.0, clock.now() - before - reading - empty_period));
  }
  costs.latency = summarize(latencies);
  costs.queue_depth = queue_depth(session);
  return costs;
}

}  // namespace foretrain::calibrate

#include "calibrate/whole_step.hpp"

#include <algorithm>
#include <cmath>

#include "calibrate/statistics.hpp"
#include "sim/base/error.hpp"

namespace foretrain::calibrate {
namespace {

using device::Event;
using device::StreamKind;

constexpr int most_warm_up = 3;
constexpr int most_steps = 3000;

// Steps back to back until done(number of steps, seconds); times between the ends of steps, warm-up left out.
// Events are read after the last step: reading costs host time, which would count where the host sets the
// pace.
template <typename Done>
std::vector<double> run_steps(Session& session, StepPlan& plan, EventPool& events, int warm_up, Done done) {
  events.reset();
  std::vector<Event> ends;
  const double start = session.clock.now();
  for (int step = 0;; ++step) {
    if (step > warm_up && (step >= most_steps || done(step - warm_up, session.clock.now() - start))) break;
    plan.issue_all();
    ends.push_back(events.take());
    session.worker.record(ends.back(), StreamKind::compute);
    if (step >= 2) await(session, ends[ends.size() - 3]);
    session.check();
  }
  session.worker.synchronize(StreamKind::compute);
  std::vector<double> times;
  for (std::size_t end = warm_up; end + 1 < ends.size(); ++end)
    times.push_back(session.worker.seconds_between(ends[end], ends[end + 1]));
  return times;
}

}  // namespace

SoakReport soak(Session& session, StepPlan& plan, device::Backend& backend, int device,
                const SoakOptions& options) {
  EventPool events(session.worker);
  SoakReport report;
  const double start = session.clock.now();
  const int warm_up = repetitions_in(options.window, options.expected_step, 1, most_warm_up);
  double last_step = 0, last_clock = 0;
  while (true) {
    const std::vector<double> times = run_steps(
        session, plan, events, warm_up, [&](int, double seconds) { return seconds >= options.window; });
    report.step = summarize(times).median;
    const double clock = backend.clocks(device).sm_hz;
    report.seconds = session.clock.now() - start;
    report.settled = last_step > 0 && std::abs(report.step / last_step - 1) < 0.003 &&
                     (last_clock <= 0 || std::abs(clock / last_clock - 1) < 0.01);
    if (report.seconds >= options.most) break;
    if (report.settled && report.seconds >= options.least) break;
    last_step = report.step;
    last_clock = clock;
  }
  return report;
}

WholeStep measure_whole_step(Session& session, StepPlan& plan, double seconds, double expected_step) {
  EventPool events(session.worker);
  WholeStep whole;
  const int least = repetitions_in(seconds, expected_step, 5, 12);
  const int warm_up = repetitions_in(0.2 * seconds, expected_step, 1, most_warm_up);
  const StopRule rule{
      .relative_error = 0.0015, .least = 40, .most = most_steps, .seconds = seconds, .least_in_time = least};
  const double start = session.clock.now();
  // Runs of growing length, each longer than all before, so that most steps lie far from a run's start.
  int length = 40;
  do {
    const std::vector<double> run = run_steps(session, plan, events, warm_up, [&](int steps, double) {
      const double spent = session.clock.now() - start;
      return steps >= length || (spent >= seconds && steps >= least);
    });
    append(whole.steps, run);
    length *= 2;
  } while (!rule.done(whole.steps, session.clock.now() - start));
  whole.step = summarize(whole.steps);
  std::vector<double> ascending = whole.steps;
  std::sort(ascending.begin(), ascending.end());
  whole.p05 = quantile(ascending, 0.05);
  whole.p95 = quantile(ascending, 0.95);
  return whole;
}

CapturedStep measure_captured_step(Session& session, StepPlan& plan, double seconds) {
  CapturedStep captured;
  try {
    plan.capture(session.worker);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return captured;
  }
  for (int step = 0; step < most_warm_up; ++step) plan.issue_all();
  constexpr int launches = 15;
  std::vector<double> host;
  for (int launch = 0; launch < launches; ++launch) {
    session.worker.synchronize();
    const double begin = session.clock.now();
    plan.issue_all();
    host.push_back(session.clock.now() - begin);
    session.check();
  }
  session.worker.synchronize();
  captured.host = summarize(host);
  captured.step = measure_whole_step(session, plan, seconds).step;
  return captured;
}

}  // namespace foretrain::calibrate

// Times of each part of a step inside whole steps. The device's queue is kept full, so that an interval
// between two events holds the device's work and never waiting for the host:
//  - where the host is faster than the device, steps are issued ahead, without any pause;
//  - where it is not, steps (or stretches of at most gate_launches launches) are issued behind a closed gate.
// Only some boundaries of a step carry events, and others in the next step. What an event costs the device is
// taken out of an interval: as intervals over several parts tell it against the intervals of these parts, or
// as measured on a chain of known kernels where there are none. Nothing is scaled to fit a step without
// events.
//
// A part's time is its period: from the end of the part before to its own end, gaps between kernels included.
#pragma once

#include <vector>

#include "calibrate/session.hpp"
#include "calibrate/step_plan.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct InContextOptions {
  double event_gap = 0;           // seconds, LaunchCosts::event_gap
  double relative_error = 0.002;  // of the sum of parts, to stop at
  double seconds = 1.5;           // of wall clock, to stop at
  int least_singles = 9;          // repetitions of each part
  double expected_step = 0;       // seconds on the device, to choose how many boundaries carry events
  double expected_host = 0;       // seconds of the host a step
};

struct InContextTimes {
  std::vector<Sample> parts;        // a slot of the plan each; corrected
  double sum = 0;                   // of the medians
  double event_gap_in_context = 0;  // from intervals over several parts against their parts
  bool gated = false;
  int stride = 1;  // each so many boundaries carry an event
  int steps = 0;
  int drained = 0;            // steps at whose start the queue was empty although issued ahead; left out
  double relative_error = 0;  // of the sum, parts' errors independent
};

InContextTimes measure_in_context(Session& session, StepPlan& plan, const InContextOptions& options);

// What an event costs between the kernels of a step: on an H100 0.4 us less than the 2.9 us on the chain of
// tiny kernels. What stretches and their parts say comes first, both from steps with events; but within 40 %
// of the chain's, for in long steps their noise is larger than what they are to tell. `alone` where there are
// none.
double event_cost_between(double on_chain, bool alone, double in_context);

// Which of the boundaries 0..parts carry an event in step number `step`. Stride 1: all, but in every fourth
// step only each fourth, to check the event's cost. Stride k >= 3: pairs around each k-th part, moving on by
// one a step. The first and the last always do.
std::vector<bool> marked_boundaries(std::size_t parts, int stride, int step);

struct HostTimes {
  std::vector<Sample> parts;  // host time to issue a slot
  Sample step;                // to issue a whole step; the queue never fills
  std::vector<double> steps;  // single ones
};

// Each repetition starts with an idle device; where a step has more launches than the queue takes, the host
// waits for the device in between, outside what is timed.
HostTimes measure_host(Session& session, StepPlan& plan, double seconds, double expected_step = 0);

// Device time of whole steps behind the gate, with an event at either end of each stretch only.
struct GatedStep {
  Sample step;
  std::vector<double> steps;
};
GatedStep measure_gated_step(Session& session, StepPlan& plan, double event_gap, double seconds,
                             double expected_step = 0, double expected_host = 0);

}  // namespace foretrain::calibrate

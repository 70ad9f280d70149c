// What compute and collectives cost each other while both run, and steps of data-parallel training that show
// both at once.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/session.hpp"
#include "calibrate/step_plan.hpp"
#include "sim/training/buckets.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

struct InterferenceOptions {
  std::int64_t bytes = 25 << 20;  // of each collective
  int repetitions = 7;
  double backward = 0;    // seconds, as measured in context
  double collective = 0;  // seconds of one call
};

// What a repetition takes, about: both become slower beside each other.
double seconds_of_repetition(const InterferenceOptions& options);

// Every rank runs a forward and a backward pass with all-reduces beside, enough of them to outlast the pass;
// then each alone, in turn. Backward counts as a whole; collectives count that lie inside it. The slowest
// rank's times stand for all.
InterferenceEntry measure_interference(Session& session, RankGroup& group, device::Communicator& communicator,
                                       device::Buffer buffer, StepPlan& plan,
                                       const InterferenceOptions& options);

// Seconds of a backward pass by itself, of the slowest rank.
double time_backward(Session& session, RankGroup& group, device::Communicator& communicator, StepPlan& plan);

}  // namespace foretrain::calibrate

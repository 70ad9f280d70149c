// From a worker's items and the strategy to the step graph of all ranks. A strategy is one file and one line
// in strategies.cpp.
#pragma once

#include <vector>

#include "sim/input/scenario.hpp"
#include "sim/training/buckets.hpp"
#include "sim/training/step_graph.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {

struct StrategyInput {
  const StepTimes* times = nullptr;
  std::vector<Bucket> buckets;
  int workers = 1;
  Time collective_host;  // host time to launch one collective, its event records and waits included
  Time event_wait;       // from an event on one stream to the start on another that waits for it
};

// Throws Error (input) for a strategy that is known but not simulated.
StepGraph build_step_graph(StrategyKind kind, const StrategyInput& input);

// The items as kernels on the compute stream, without communication; the building block of strategies.
// Returns the operation that each backward item became.
RankProgram compute_program(const StepTimes& times);
Operation kernel_of(const StepItem& item);

StepGraph independent_step_graph(const StrategyInput& input);
StepGraph ddp_step_graph(const StrategyInput& input);
StepGraph parameter_server_step_graph(const StrategyInput& input);

}  // namespace foretrain

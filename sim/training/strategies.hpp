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
  int queue_depth = 1024;  // launches that the device takes before the host blocks
  const StepTimes* times = nullptr;
  std::vector<Bucket> buckets;  // each leaves after the item of the backward pass that it names
  int workers = 1;
  int servers = 1;              // parameter_server: bucket b is updated on rank b mod servers
  int accumulation = 1;         // forward and backward passes before the update, each of `times`
  double bytes_per_weight = 4;  // of what servers send back
  Time collective_host;         // host time to launch one collective, its event records and waits included
  Time event_wait;              // from an event on one stream to the start on another that waits for it
};

// Throws Error (input) for a strategy that is known but not simulated.
StepGraph build_step_graph(StrategyKind kind, const StrategyInput& input);

Operation kernel_of(const StepItem& item);
// Forward and backward, as often as gradients are accumulated, without communication; then the update.
RankProgram compute_program(const StrategyInput& input);
// The same up to the update, with one collective a bucket on the communication stream as soon as the bucket
// is complete in the last backward pass. Bucket b's root is b mod servers. `collectives` receives their
// operations.
RankProgram program_until_update(const StrategyInput& input, CollectiveKind kind,
                                 std::vector<int>& collectives);
// The update, once the operations `after` have finished; of a part of the parameters it takes that part of
// its time, in as many launches.
void append_update(const StrategyInput& input, const std::vector<int>& after, RankProgram& program,
                   double part = 1);
// A collective of `bytes` for a bucket in the group of all workers.
Operation collective_of(const StrategyInput& input, CollectiveKind kind, std::size_t bucket, Bytes bytes,
                        int root, std::vector<int> after);
ProcessGroup all_workers(int workers);

StepGraph independent_step_graph(const StrategyInput& input);
StepGraph ddp_step_graph(const StrategyInput& input);
StepGraph parameter_server_step_graph(const StrategyInput& input);

}  // namespace foretrain

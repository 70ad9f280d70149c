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

// Every rank runs a forward and a backward pass with all-reduces beside, enough of them to outlast the pass;
// then each alone, in turn. Backward counts as a whole; collectives count that lie inside it. The slowest
// rank's times stand for all.
InterferenceEntry measure_interference(Session& session, RankGroup& group, device::Communicator& communicator,
                                       device::Buffer buffer, StepPlan& plan,
                                       const InterferenceOptions& options);

// Data-parallel steps as DistributedDataParallel orders them: each bucket is reduced once its last gradient
// is there, the update waits for the last bucket; without buckets the ranks run side by side. Gradients in
// fp32. Single steps of this rank: ranks that meet in every bucket have one pace, and the greater of two
// intervals would count their jitter twice.
std::vector<double> run_ddp_steps(Session& session, RankGroup& group, device::Communicator& communicator,
                                  StepPlan& plan, const Model& model, const std::vector<Bucket>& buckets,
                                  int steps);

// For each bucket the slot of the plan after which all its gradients are complete.
std::vector<std::size_t> bucket_ready_slots(const StepPlan& plan, const Model& model,
                                            const std::vector<Bucket>& buckets);

}  // namespace foretrain::calibrate

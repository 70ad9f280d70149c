// A job as the executor runs it: phases of updates with a batch, workers and a learning rate each, and what
// happens between updates.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/input/scenario.hpp"

namespace foretrain {

struct TrainingPhase {
  std::int64_t updates = 0;
  std::int64_t batch = 0;  // global
  int workers = 1;
  std::optional<double> learning_rate;  // none: the optimizer's
};

struct JobPlan {
  std::vector<TrainingPhase> phases;
  // After which updates of the job, ascending.
  std::vector<std::int64_t> evaluations, checkpoints;
  std::int64_t evaluation_samples = 0;
  bool evaluates_on_one = false;   // rank 0 has all of them, the others wait
  bool writes_beside = false;      // checkpoints are written beside training, which waits for the one before
  std::int64_t short_batches = 0;  // kept, and run at the full size

  std::int64_t updates() const;
};

// The job of a scenario: its epochs over its data set by its schedule. A short last batch that is kept is an
// update of the full size. None where it has no job. Throws Error (input) where it has a job and no data set,
// a schedule that follows a loss, or evaluations at a batch that is not the one of training.
std::optional<JobPlan> job_plan(const Scenario& scenario);

// The scenario as one phase runs it. Throws Error (input) where the batch cannot be dealt out equally.
Scenario with_phase(const Scenario& scenario, const TrainingPhase& phase);

}  // namespace foretrain

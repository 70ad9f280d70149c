// A job as the executor runs it: the updates of its schedule one after the other, each with its batch,
// workers and learning rate, and what happens between them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "sim/input/scenario.hpp"
#include "sim/job/schedule.hpp"
#include "sim/job/trigger.hpp"

namespace foretrain {

// Equal shares: a batch that cannot be dealt out equally is filled up, as a distributed sampler fills it.
struct PlannedUpdate {
  std::int64_t batch = 0;                       // global, as the schedule has it
  std::int64_t share = 0;                       // samples a worker
  std::int64_t full_batch = 0, full_share = 0;  // of an update that is not the short last one of an epoch
  int workers = 1;
  int phase = 0;       // of the schedule's list
  bool looks = false;  // the schedule wants the loss over the data before it
  double learning_rate = 0;
  bool is_short() const { return share != full_share; }
  // One program runs both.
  bool same_shape(const PlannedUpdate& other) const {
    return full_share == other.full_share && workers == other.workers;
  }
};

struct LossSeen {
  std::int64_t updates = 0;  // done by then
  double loss = 0;
  bool operator==(const LossSeen&) const = default;
};

// A place in the updates of a job. The simulator's own schedule: what it predicts is what runs.
class JobWalk {
 public:
  explicit JobWalk(const Scenario& scenario);

  bool is_finished() const { return cursor_.is_finished(); }
  std::int64_t updates() const { return cursor_.updates(); }
  // Samples before the next update, with what was dropped.
  std::int64_t position() const { return static_cast<std::int64_t>(cursor_.position()); }
  PlannedUpdate next() const;

  struct After {
    bool evaluates = false, saves = false;
  };
  After advance();  // past one update
  void see_loss(double loss);
  const std::vector<LossSeen>& losses() const { return losses_; }
  // From the beginning to where an earlier run was that saw these losses.
  void go_to(std::int64_t updates, const std::vector<LossSeen>& losses);
  // Shares of the short updates from here to the next that has another shape, each once.
  std::vector<std::int64_t> short_shares() const;
  // Whether batch or workers change from here to the end, short batches aside.
  bool changes_shape() const;
  // Numbers of workers from here to the end, ascending; all that may be where the batch follows the loss.
  std::set<int> worker_counts() const;

 private:
  std::shared_ptr<const ScheduleInput> input_;
  std::shared_ptr<const Job> job_;
  ScheduleCursor cursor_;
  std::optional<Trigger> evaluate_, save_;
  std::vector<LossSeen> losses_;
};

struct JobPlan {
  JobWalk begin;
  std::int64_t evaluation_samples = 0;
  std::int64_t evaluation_batch = 0;  // a worker; 0: that of training
  bool evaluates_on_one = false;      // rank 0 has all of them, the others wait
  bool saves = false;                 // the scenario has checkpoints
  bool writes_beside = false;         // they are written beside training, which waits for the one before
  std::int64_t loss_samples = 0;      // of a schedule that looks at the loss over the data
};

// The job of a scenario: its epochs over its data set by its schedule. None where it has no job. Throws Error
// (input) where it has a job and no data set, evaluates or saves after times, or leaves workers to a budget.
std::optional<JobPlan> job_plan(const Scenario& scenario);

// The scenario as one update runs it, or all of the full batch.
Scenario with_update(const Scenario& scenario, const PlannedUpdate& update);

}  // namespace foretrain

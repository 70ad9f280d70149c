// The updates of a job one after the other, as runs of equal ones: which batch, on how many workers, when it
// ends.
#pragma once

#include <cstdint>

#include "sim/base/error.hpp"
#include "sim/input/job.hpp"

namespace foretrain {

struct ScheduleInput {
  const Job* job = nullptr;
  std::int64_t samples = 0;  // of the data set
  std::int64_t batch = 0;    // global, where the job has no schedule
  int available = 1;         // workers of the cluster
  int budget_workers = 0;    // as many as the budget pays for; 0: no limit
  double learning_rate = 0;  // of the optimizer
  bool sees_losses = false;  // adadamp: by see_loss() in place of the job's curve
};

// Equal updates that follow each other.
struct UpdateRun {
  std::int64_t batch = 0;  // global
  std::int64_t full = 0;   // the same, where it is not short
  int workers = 1;
  std::int64_t updates = 0;  // until something changes
  bool is_short = false;     // the rest of an epoch
  int phase = 0;             // of the schedule's list
  bool adapts = false;       // the rule looks at the loss before the first of them, see_loss() aside
};

// Equal epochs that follow each other, from the beginning of one.
struct EpochRun {
  std::int64_t epochs = 0;       // until something changes
  std::int64_t updates = 0;      // of each, the short one included
  std::int64_t short_batch = 0;  // 0: none
  std::int64_t full_updates() const { return updates - (short_batch > 0 ? 1 : 0); }
};

// A place in the job's updates. Copies are cheap: a checkpoint holds one. With `carry` batches run on across
// epochs and an update belongs to the phase that has most of it, so that counts are those of exact division,
// rounded: 200 epochs of 50,000 samples at 128 are 78,125 updates. With `keep` each epoch rounds up (78,200),
// with `drop` down.
class ScheduleCursor {
 public:
  // Of a job, each a run of equal updates or what comes between them: more are not walked through.
  static constexpr std::uint64_t most_events = 10'000'000;

  // `input` must outlive the cursor. Throws Error (input) where the job has no data set.
  explicit ScheduleCursor(const ScheduleInput& input);

  bool is_finished() const { return is_finished_; }
  // From here; a finished cursor has none.
  UpdateRun run() const;
  // Past `updates` of run(), at most all of them.
  void advance(std::int64_t updates);
  // From here; none in the middle of an epoch, while a damping rule grows the batch, or where batches run on
  // across epochs.
  EpochRun epochs_ahead() const;
  // Past `epochs` of epochs_ahead().
  void advance_epochs(const EpochRun& run, std::int64_t epochs);

  std::int64_t updates() const { return updates_; }
  double samples() const { return trained_; }
  // Passes over the data, with what was dropped.
  double epochs() const { return position_ / samples_per_epoch_; }
  double position() const { return position_; }  // the same in samples
  double learning_rate() const;                  // of the next update, or of the last where finished
  // The batch that a damping rule asks for, before the largest is applied.
  double wanted_batch() const;

  // The loss over the data, looked at here: the batch follows the first one seen over this one. Once it is
  // known run() no longer adapts here.
  void see_loss(double loss);

 private:
  double samples_factor(double batch) const;
  std::int64_t batch() const;
  int workers(std::int64_t batch) const;
  double until_phase() const;  // progress at which the next phase begins, or the end
  void settle();

  const ScheduleInput* input_;
  double samples_per_epoch_ = 0, end_ = 0;
  std::int64_t first_batch_ = 0;
  std::int64_t updates_ = 0;
  double position_ = 0, trained_ = 0;
  double progress_ = 0;  // samples at the efficiency of the reference batch
  // carry: progress is from_ + (updates - exact_) x batch.
  double from_ = 0, exact_ = 0;
  std::int64_t carried_batch_ = 0;
  double first_loss_ = 0, loss_ = 0;  // seen; 0: none
  std::int64_t looked_at_ = -1;       // updates done by then
  int phase_ = 0;
  bool is_finished_ = false;
};

// Counts of a whole job.
struct ScheduleTotals {
  std::int64_t updates = 0;
  double samples = 0, epochs = 0;
  int most_workers = 1;
};
ScheduleTotals totals_of(const ScheduleInput& input);

// Says which keys make a job one of fewer events.
Error too_many_events();

// The value of a curve at a place of the job, linear between points, the last one's beyond.
double curve_at(const Curve& curve, std::size_t run, double updates, double epochs);

}  // namespace foretrain

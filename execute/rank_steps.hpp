// The steps of one rank: issued, measured, and what a job does between them.
#pragma once

#include <cstdint>
#include <future>
#include <memory>

#include "execute/batch_reader.hpp"
#include "execute/rank_run.hpp"
#include "execute/sized_programs.hpp"
#include "execute/step_meter.hpp"
#include "execute/unequal_data.hpp"

namespace foretrain {

// Keeps references to what it is given. `data` null: one synthetic batch; `unequal` null: rows of one length.
class RankSteps {
 public:
  RankSteps(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
            device::Worker& worker, device::Program& program, Trainer& trainer, Exchange& exchange,
            SizedPrograms& programs, const DataSource* data, const UnequalData* unequal, RunControl& control,
            RankRecord& record);

  // Batches from here on are those of updates 0, 1, ...; of a job's, from where it is.
  void feed(const JobWalk* job = nullptr);

  // Uncounted steps. False where the run was stopped.
  bool warm_up(int steps);
  void drain() { meter_.drain(); }

  // Counted ones, after one more that fills the device's queue again.
  bool train(int steps);

  // Steps with the monitor over steps without, less one. 0 where the run was stopped.
  double monitor_cost();

  // Updates of a job with what lies between them, as long as they have one shape; all of them count.
  bool train(const RankJob& job, JobWalk& walk);

 private:
  double now() const { return options_.timeline ? options_.timeline->now() : 0; }

  void begin_counting();
  void end_counting();

  bool keeps_time() const { return options_.timeline != nullptr && place_.local == 0; }

  // What was noted, until the next note; of a rank that keeps no time, nothing of the record's.
  RunEvent& note(const char* what, double begin, std::int64_t updates, double bytes = 0);

  bool issue(std::int64_t steps);
  bool issue(const PlannedUpdate& update);
  bool issue_step();

  // Of the next update's rows; 0: all are as long as the model's sequence.
  std::int64_t row() const;

  void note_lengths(std::int64_t rows);
  void next_batch();

  // Over batches that training does not see; leaves no trace.
  void look_at_noise(std::int64_t updates);

  // Forward passes over the input that lies on the device.
  void evaluate(std::int64_t updates);

  // Of all ranks, over the data; the same on each.
  double look_at_loss(const JobPlan& plan, std::int64_t updates);

  static std::int64_t passes_over(std::int64_t samples, std::int64_t a_pass);

  void go_on();
  void save(const RankJob& job, const JobWalk& walk);

  // The checkpoint that is being written beside training, where there is one. Throws where it cannot be.
  void finish_write();

  // Before a phase ends: what training waits for then is a checkpoint's, without bytes of its own.
  void await_last_write(std::int64_t updates);

  struct Written {
    double begin = 0, end = 0;
    std::int64_t updates = 0;
    double bytes = 0;
  };

  void keep(const StepTiming& timing);

  const Scenario& scenario_;
  const RankOptions& options_;
  const RankPlace& place_;
  device::Worker& worker_;
  device::Program& program_;
  Exchange& exchange_;
  SizedPrograms& programs_;
  const DataSource* data_;
  const UnequalData* unequal_;
  RunControl& control_;
  RankRecord& record_;
  std::unique_ptr<BatchReader> reader_;
  StepMeter meter_;
  SizedPrograms::Sized full_, running_;
  std::int64_t batch_ = 0;  // global
  RunEvent unnoted_;
  std::future<Written> writing_;  // of rank 0
  std::int64_t step_ = 0, counted_issued_ = 0;
  std::int64_t update_ = 0;  // that the next step makes, since the data began
  int uncounted_left_ = 0;
  bool counts_ = false;
};

}  // namespace foretrain

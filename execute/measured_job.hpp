// What a job took for real, from its record's events: each phase, and what lies between updates.
#pragma once

#include <string>
#include <vector>

#include "execute/run_record.hpp"
#include "sim/input/job.hpp"

namespace foretrain {

struct MeasuredPhase {
  std::int64_t batch = 0, updates = 0;
  int workers = 0;
  double time = 0;  // seconds, what lies between updates taken out
};

// Seconds of all occurrences, and how many there were.
struct MeasuredPart {
  double time = 0;
  int count = 0;
};

struct MeasuredJob {
  std::vector<MeasuredPhase> phases;
  MeasuredPart evaluation, checkpoint, startup, noise, adaptation;
  MeasuredPart rescale, rebatch;  // changes of workers, and of the batch alone
  double checkpoint_bytes = 0;    // of all
  MeasuredPart write;             // of checkpoints beside training, which is none of its time
  double write_bytes = 0;
  double snapshot_rate = 0;  // bytes per second of the quickest snapshot, where they are written beside
  double total = 0;          // from the start of the run to the end of the last phase
};

// Batches of a damping rule are one phase until they have grown by a tenth, as in a prediction. Without
// phases where the run was none of a job.
MeasuredJob measured_job(const RunRecord& record);

// Settings of a scenario ("job.startup=3.2 s") by which its job is predicted with the costs that this run
// measured: start-up, changes of workers and batch, the rate at which checkpoints are written. Only those
// that the record holds and `job` has. With samples.law: gradient_noise, the noise scale as well.
std::vector<std::string> cost_settings(const RunRecord& record, const Job& job);

}  // namespace foretrain

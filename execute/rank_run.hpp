// The run of one rank: build the model, warm up, train the steps that count, measure them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "execute/checkpoint.hpp"
#include "execute/data_source.hpp"
#include "execute/exchange.hpp"
#include "execute/job_plan.hpp"
#include "execute/run_control.hpp"
#include "execute/run_record.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// How long a run is where its scenario has no job.
struct RunLength {
  std::optional<int> steps;  // none: 100, or 20 s of steps and at least 12, whichever ends first
  int warmup = 10;
  // Seconds of steps before the warm-up, so that the devices reach the clocks and temperature of a long run;
  // they leave no trace in a job's weights.
  double soak = 0;
};
int default_steps(double step_seconds);

// The updates of a job from one place on, as long as they have one shape.
struct RankJob {
  const JobPlan* plan = nullptr;
  const JobWalk* begin = nullptr;
  JobWalk* end = nullptr;  // filled by the first rank of the process
  bool begins = true;      // of this run: the whole warm-up first, else two steps; they leave no trace
  const TrainingState* start = nullptr;  // null: weights as initialized
  TrainingState* end_state = nullptr;    // filled by the first rank of the process
  std::filesystem::path checkpoint;      // written by rank 0
  std::string identity;                  // of the checkpoint
};

// What happened when; written by the first rank of the process.
struct RunTimeline {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::vector<RunEvent> events;
  std::vector<NoiseLook> noise_looks;
  double first_counted = -1, last_counted = -1;  // seconds since begin
  double monitor_cost = 0;
  // Counted steps of that rank that waited for their input; the short ones at the end of an epoch.
  std::vector<std::int64_t> late_batches, short_batches;
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

struct RankOptions {
  RunLength length;
  // Phases and buckets are timed on every k-th step, so that most steps carry no more events than they need.
  int phase_every = 5;
  std::uint64_t seed = 1;
  int plan_candidates = 3;
  std::shared_ptr<const DataSource> data;  // null: one synthetic batch a rank, made on the device
  // Counted steps after which the noise of gradients is looked at, again and again; 0: never. Needs data.
  int noise_every = 0;
  bool each_loss = false;        // read after every counted step, which the host then waits for
  const RankJob* job = nullptr;  // null: RunLength holds
  RunTimeline* timeline = nullptr;
  // Where it is set, the cost of sampling is measured after the counted steps: blocks of steps in turn with
  // and without it.
  std::function<void(bool paused)> pause_monitor;
  // Told the processes of the ranks on this node, once all have met.
  std::function<void(std::vector<int> processes)> watch_processes;
  // Called on each rank before it issues a step, counted from the first warm-up step; may be empty.
  std::function<void(int rank, std::int64_t step)> before_step;
};

struct RankPlace {
  int local = 0;  // among the ranks of this process
  int rank = 0, world = 1;
  int node = -1;  // -1: found out when the ranks meet, by their hosts
};

// Fills `record` as it goes: what is there when it throws is whole. Returns what all ranks recorded, in rank
// order, on every rank; empty where the run was stopped.
std::vector<RankRecord> run_rank(const Scenario& scenario, const RankOptions& options, const RankPlace& place,
                                 device::Worker& worker, device::Communicator* communicator,
                                 RunControl& control, RankRecord& record);

}  // namespace foretrain

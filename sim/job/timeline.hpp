// A whole job by events: start-up, updates, evaluations, checkpoints, logging, changes of workers, failures.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/input/job.hpp"
#include "sim/job/job_clock.hpp"
#include "sim/job/schedule.hpp"
#include "sim/job/step_shapes.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

struct JobTimelineInput {
  ScheduleInput schedule;
  const InputPipeline* input = nullptr;  // null: samples are there
  StepShapes* shapes = nullptr;
  double checkpoint_bytes = 0;
  int gpus_per_node = 1;
  std::uint64_t seed = 1;
  std::uint64_t draw = 0;   // of the failures
  bool every_step = false;  // each update an event of its own, its time drawn from the spread of steps
  bool noise = true;        // false: every step takes the mean
};

// What the job's time is made of; the parts sum to it.
struct JobParts {
  Elapsed training, input, evaluation, checkpoint, startup, rescale, logging, adaptation;
  Elapsed sum() const;
};

struct JobTimeline {
  Elapsed total, failing;  // failing: done again, and restarts
  JobParts parts;
  double restarting = 0;  // seconds of `failing`
  std::int64_t updates = 0;
  double samples = 0, epochs = 0;
  double gpu_seconds = 0;
  std::int64_t failures = 0, checkpoints = 0, evaluations = 0;
  double below = 0, above = 0;  // seconds by which the doubt about the step lowers or raises the training
  std::vector<JobPhase> phases;
  std::vector<JobPoint> progress;
  std::uint64_t events = 0;
};

// Throws Error (input) where failures come faster than checkpoints, so that the job never ends.
JobTimeline simulate_timeline(const JobTimelineInput& input);

}  // namespace foretrain

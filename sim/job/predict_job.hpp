// From a scenario to a prediction of its step and of its whole job.
#pragma once

#include "sim/input/scenario.hpp"
#include "sim/job/schedule.hpp"
#include "sim/output/result.hpp"
#include "sim/training/predict.hpp"

namespace foretrain {

struct JobOptions : PredictOptions {
  bool every_step = false;  // replay each update of the job, drawn from the spread of steps
  bool noise = true;        // false: each takes the mean
  bool baseline = true;     // simulate the job that this one is compared with
};

// predict() of the job's first phase (of the scenario, where it has no schedule), its input pipeline, and the
// job. Throws Error as predict() does.
Result predict_job(const Scenario& scenario, const JobOptions& options = {});

// Bytes of a checkpoint: parameters and the optimizer's state in fp32; of a job known only by the size of its
// gradients, those.
double checkpoint_bytes(const Scenario& scenario);

// What the schedule of the scenario's job is made of.
ScheduleInput schedule_input(const Scenario& scenario);

}  // namespace foretrain

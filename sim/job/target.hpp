// When a curve reaches a value, as updates and as time of a job.
#pragma once

#include "sim/input/job.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// Each run of the curve is read three ways: the first point that reaches the target (smallest), the crossing
// between that point and the one before (its own), and the point after which it stays there (largest). The
// answer is the median run's crossing; low and high are the smallest and the largest of all runs. Not reached
// where a run of the curve, or the job, ends before.
JobTarget time_to_target(const Curve& curve, const Target& target, const JobPrediction& job);

// Seconds at which the job has so many updates done, linear between the points of its progress.
double time_of_updates(const JobPrediction& job, double updates);

// Change of the curve an update over its last fifth before `updates` (two points at least), mean of its runs.
double slope_at_end(const Curve& curve, double updates, double epochs, double updates_an_epoch);

}  // namespace foretrain

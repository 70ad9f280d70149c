#include "sim/output/scalars.hpp"

#include <algorithm>

namespace foretrain {
namespace {

constexpr std::int64_t updates_without_job = 100;

void add(std::vector<ScalarEvent>& out, double time, std::int64_t update, double step, double batch,
         double workers) {
  out.push_back({time, update, "step_time_s", step});
  if (step > 0) out.push_back({time, update, "samples_per_s", batch / step});
  out.push_back({time, update, "batch", batch});
  out.push_back({time, update, "workers", workers});
}

}  // namespace

std::vector<ScalarEvent> scalars_of(const Result& result) {
  std::vector<ScalarEvent> out;
  if (!result.job) {
    for (std::int64_t update = 1; update <= updates_without_job; ++update)
      add(out, static_cast<double>(update) * result.step.mean, update, result.step.mean,
          static_cast<double>(result.batch_global), result.workers);
    return out;
  }
  const JobPrediction& job = *result.job;
  // Each point of the job has the step of the phase that it lies in.
  std::size_t phase = 0;
  std::int64_t end = job.phases.empty() ? 0 : job.phases.front().updates;
  for (const JobPoint& point : job.progress) {
    while (phase + 1 < job.phases.size() && point.updates > end) end += job.phases[++phase].updates;
    const double step = job.phases.empty() ? result.step.mean : job.phases[phase].step;
    add(out, point.time, point.updates, step, static_cast<double>(point.batch), point.workers);
    if (point.value)
      out.push_back({point.time, point.updates, job.target ? job.target->what : "loss", *point.value});
  }
  return out;
}

}  // namespace foretrain

#include "execute/prediction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "execute/distance.hpp"
#include "sim/base/sha256.hpp"
#include "sim/base/utc.hpp"
#include "sim/input/profile_join.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/output/json.hpp"
#include "sim/training/memory.hpp"

namespace foretrain {

PredictionBefore predict_before(const Scenario& scenario, const Machine& here, std::uint64_t seed) {
  JobOptions options;
  options.seed = seed;
  options.remedies = false;
  options.baseline = false;
  const Result result = predict_job(scenario, options);
  PredictionBefore prediction;
  write_json({&result, 1}, [&](std::string_view piece) { prediction.json += piece; });
  prediction.time = utc_now();
  prediction.digest = sha256(prediction.json);
  prediction.step = result.step.time;
  prediction.low = result.step.low;
  prediction.high = result.step.high;
  // Efficiency is one worker's step over this one, both with the same batch per worker.
  prediction.one_worker_step = result.efficiency * result.step.time;
  prediction.distance = distance_of(scenario, here);
  prediction.peak_bytes = result.memory.peak;
  return prediction;
}

std::string memory_warning(const Scenario& scenario, const Machine& here) {
  if (!scenario.model || !scenario.model->is_graph()) return "";
  Profile profile;
  if (scenario.profile) profile.operators = scenario.profile->operators;  // for the workspace
  profile.runs.resize(1);
  profile.runs[0].machine = here;
  const int parts = scenario.strategy.accumulation;
  const std::int64_t batch = std::max<std::int64_t>(1, scenario.batch_per_worker / parts);
  const Memory memory = estimate_memory(*scenario.model, batch, scenario.precision,
                                        scenario.strategy.gradients, scenario.optimizer, &profile)
                            .memory;
  if (memory.fits) return "";
  const std::int64_t most = parts * largest_batch(*scenario.model, scenario.precision,
                                                  scenario.strategy.gradients, scenario.optimizer, profile);
  return fmt::format(
      "it will run out of memory: a step needs about {:.1f} GB, a device has {:.1f} GB{}", memory.peak / 1e9,
      memory.capacity / 1e9,
      most > 0 ? fmt::format("; the largest batch a worker that fits is about {}", most) : std::string());
}

std::string device_warning(const Scenario& scenario, const Machine& here) {
  if (!scenario.profile || scenario.gpu_types) return "";
  const std::string there = device_of(*scenario.profile), device = device_of(here);
  if (there.empty() || device.empty() || there == device) return "";
  return fmt::format(
      "profile '{}' was measured on '{}', this machine has '{}': what is predicted is the step of the former",
      scenario.profile->name, there, device);
}

}  // namespace foretrain

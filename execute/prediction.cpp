#include "execute/prediction.hpp"

#include "execute/distance.hpp"
#include "sim/base/sha256.hpp"
#include "sim/base/utc.hpp"
#include "sim/output/json.hpp"
#include "sim/training/predict.hpp"

namespace foretrain {

PredictionBefore predict_before(const Scenario& scenario, const Machine& here, std::uint64_t seed) {
  PredictOptions options;
  options.seed = seed;
  options.remedies = false;
  const Result result = predict(scenario, options);
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

}  // namespace foretrain

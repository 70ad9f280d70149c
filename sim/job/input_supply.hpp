// How fast samples reach the steps of a job, with batches made ready ahead.
#pragma once

#include <cstdint>

#include "sim/input/job.hpp"

namespace foretrain {

// Seconds in which a node makes one batch of `share` samples ready: reading and decoding run side by side, so
// the slower counts. 0 without a pipeline.
double batch_supply_time(const InputPipeline* input, double share, bool is_first_epoch);

// What lies ready when a run of updates begins: batches, a part of the next included; at most `depth`.
struct Supply {
  double ready = 0;
  int depth = 2;

  // Seconds that `updates` of `step` seconds each take when a batch takes `supply` to make ready, and what
  // lies ready then. The reader works beside the steps (depth 1 and more), so that update k starts no earlier
  // than (k + 1 - ready) x supply and no earlier than the end of the one before: in closed form
  // step + max(max(0, (1 - ready) supply) + (n - 1) step, (n - ready) supply).
  double spend(std::int64_t updates, double step, double supply);
  // Training does something else for so long.
  void pause(double seconds, double supply);
};

}  // namespace foretrain

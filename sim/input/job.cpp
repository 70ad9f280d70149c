#include "sim/input/job.hpp"

#include <algorithm>

namespace foretrain {

const char* name_of(LastBatch last_batch) {
  switch (last_batch) {
    case LastBatch::keep:
      return "keep";
    case LastBatch::drop:
      return "drop";
    case LastBatch::carry:
      return "carry";
  }
  return "";
}

std::int64_t share_of(std::int64_t batch, std::int64_t workers) {
  return (batch + workers - 1) / workers;
}

int workers_for(const WorkerRule& rule, std::int64_t batch, int available) {
  std::int64_t workers = available;
  if (rule.fixed) workers = std::min<std::int64_t>(workers, *rule.fixed);
  if (rule.samples_per_worker) {
    workers = std::min(workers, (batch + *rule.samples_per_worker - 1) / *rule.samples_per_worker);
  }
  if (rule.most) workers = std::min<std::int64_t>(workers, *rule.most);
  return static_cast<int>(std::clamp<std::int64_t>(workers, 1, std::max<std::int64_t>(1, batch)));
}

}  // namespace foretrain

#include "sim/job/host_cores.hpp"

#include <algorithm>
#include <cmath>

#include "sim/input/job.hpp"

namespace foretrain {

int whole_cores(double cores) {
  constexpr double most = 1e9;
  return static_cast<int>(std::clamp(std::ceil(cores - 1e-9), 0.0, most));
}

int CoreNeed::total() const {
  return whole_cores(decoding + launching + proxies);
}

CoreNeed core_need(const Scenario& scenario, const Result& result) {
  CoreNeed need;
  const int gpus = std::min(result.workers, std::max(1, scenario.cluster.topology.gpus_per_node));
  const bool is_one = scenario.host && scenario.host->one_process;
  const int threads = scenario.host ? scenario.host->threads : 1;
  need.launching = is_one ? threads : gpus * threads;
  const double alone = result.step.time - result.step.breakdown.input;
  if (scenario.input && alone > 0) {
    const double share = std::ceil(static_cast<double>(result.batch_global) / std::max(1, result.nodes));
    need.decoding = share * scenario.input->decode / alone;
  }
  if (result.nodes > 1 && result.step.time > 0)
    need.proxies = gpus * std::min(1.0, result.communication.busy / alone);
  return need;
}

int decoding_workers(const Scenario& scenario, const CoreNeed& need) {
  const int wanted = scenario.input ? scenario.input->workers : 1;
  if (!scenario.host || scenario.host->cores == 0) return wanted;
  const int left = scenario.host->cores - need.launching - whole_cores(need.proxies);
  return std::clamp(left, 1, std::max(1, wanted));
}

}  // namespace foretrain

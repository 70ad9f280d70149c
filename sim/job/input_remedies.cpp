#include "sim/job/input_remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/job/host_cores.hpp"
#include "sim/job/input_supply.hpp"

namespace foretrain {
namespace {

constexpr double noticeable = 1.01;

// Workers that would hide the reading, as far as the host has cores for them; those that are where none help.
int more_workers(const Scenario& scenario, const CoreNeed& need, const InputPipeline& input, double supply,
                 double step) {
  const double factor = input.prefetch == 0 ? 2 : supply / step;
  int wanted = whole_cores(input.workers * factor);
  if (scenario.host && scenario.host->cores > 0) {
    wanted = std::min(wanted, scenario.host->cores - need.launching - whole_cores(need.proxies));
  }
  return std::max(wanted, input.workers);
}

}  // namespace

void remedies_beside_input(const Scenario& scenario, const CoreNeed& need, const InputPipeline& input,
                           double supply, Result& result) {
  auto waited = [&](double seconds, double supplied) {
    return input.prefetch == 0 ? seconds + supplied : std::max(seconds, supplied);
  };
  const double step = result.step.time, now = waited(step, supply);
  const auto batch = static_cast<double>(result.batch_global);
  for (Remedy& remedy : result.remedies) {
    const double samples = remedy.speedup * batch / step * remedy.step;
    // Fewer samples stand on fewer nodes, as many on each as before.
    const double supplied = supply * std::max(1.0, samples / batch);
    remedy.step = waited(remedy.step, supplied);
    remedy.speedup = samples / remedy.step * now / batch;
  }
  InputPipeline more = input;
  more.workers = more_workers(scenario, need, input, supply, step);
  const double share = std::ceil(batch / std::max(1, result.nodes));
  const double faster = waited(step, batch_supply_time(&more, share, false));
  result.remedies.push_back(
      {fmt::format("{} workers a node that load", more.workers), faster, now / faster, "cores of the hosts"});
  std::erase_if(result.remedies, [](const Remedy& remedy) { return remedy.speedup < noticeable; });
  std::stable_sort(result.remedies.begin(), result.remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return a.speedup > b.speedup; });
  constexpr std::size_t most = 5;
  if (result.remedies.size() > most) result.remedies.resize(most);
}

}  // namespace foretrain

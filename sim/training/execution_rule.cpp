#include "sim/training/execution_rule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/input/job.hpp"

namespace foretrain {
namespace {

// Of one launch, where the profile has none (assumed).
constexpr double assumed_launch = 5e-6;

void scale(Sample& sample, double factor) {
  for (double* each : {&sample.median, &sample.low, &sample.high, &sample.spread}) *each *= factor;
}

void set(Sample& sample, double seconds) {
  sample.median = sample.low = sample.high = seconds;
  sample.spread = 0;
}

template <typename Visit>
void each_timing(Profile& profile, Visit visit) {
  for (OperatorEntry& entry : profile.operators)
    for (PassTiming& timing : entry.passes) visit(timing);
  for (OptimizerEntry& entry : profile.optimizers) visit(entry.update);
  for (StepWorkEntry& entry : profile.step_work)
    if (entry.what != "input_copy") visit(entry.timing);
}

}  // namespace

double launching_factor(const Scenario& scenario, int workers) {
  if (!scenario.host) return 1;
  const HostDescription& host = *scenario.host;
  const int per_node = std::max(1, std::min(workers, std::max(1, scenario.cluster.topology.gpus_per_node)));
  const int threads = host.one_process ? std::min(host.threads, per_node) : per_node;
  const double sharing = static_cast<double>(per_node) / threads;
  const double crowding = host.cores > 0 ? std::max(1.0, static_cast<double>(threads) / host.cores) : 1;
  return sharing * crowding;
}

ExecutedScenario::ExecutedScenario(const Scenario& scenario, int workers) : given(&scenario) {
  const double factor = launching_factor(scenario, workers);
  const bool is_graph = scenario.execution.cuda_graph;
  if (!scenario.profile || (factor == 1 && !is_graph)) return;
  auto profile = std::make_shared<Profile>(*scenario.profile);
  each_timing(*profile, [&](PassTiming& timing) {
    if (is_graph) set(timing.host, 0);
    scale(timing.host, factor);
  });
  if (is_graph) {
    const double launch = profile->launches.empty() ? assumed_launch : profile->launches.back().launch.median;
    for (OptimizerEntry& entry : profile->optimizers) set(entry.update.host, launch * factor);
  }
  auto made = std::make_shared<Scenario>(scenario);
  made->profile = std::move(profile);
  if (factor != 1) {
    made->warnings.push_back(
        fmt::format("host: launching threads or cores are shared, so that launches take {:.3g} times as long "
                    "as calibrated",
                    factor));
  }
  if (is_graph) {
    made->warnings.push_back(
        "cuda_graph: the host takes one launch for a captured step (assumed: no profile has measured one); "
        "collectives are launched as before, and kernels take as long");
  }
  changed = std::move(made);
}

}  // namespace foretrain

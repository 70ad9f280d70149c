#include "sim/training/execution_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/quantile.hpp"
#include "sim/input/job.hpp"
#include "sim/training/gpu_types.hpp"
#include "sim/training/whole_steps.hpp"

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
    if (entry.what != "input_copy" && entry.what != captured_step_work) visit(entry.timing);
}

using Place = std::pair<std::int64_t, std::int64_t>;  // batch and length

struct Captured {
  std::map<Place, double> factor;  // of the passes' times when captured, where that was measured
  std::vector<double> factors, hosts;
};

Captured captured_steps(const Profile& profile, const std::string& model, Precision precision) {
  Captured out;
  for (const StepWorkEntry& step : profile.step_work) {
    if (step.what != captured_step_work || step.model != model || step.precision != precision) continue;
    const TimedParts parts = timed_parts(profile, model, precision, step.batch, step.sequence);
    const double left = step.timing.device.median - parts.beside;
    if (!parts.has_update || parts.passes <= 0 || left <= 0) continue;
    out.factor[{step.batch, step.sequence}] = left / parts.passes;
    out.factors.push_back(left / parts.passes);
    out.hosts.push_back(step.timing.host.median);
  }
  return out;
}

// Kernels of a captured step as they were measured in it, by model, batch and length; the mean of these where
// a place was not measured. Returns whether there are any.
bool take_captured(Profile& profile, const Scenario& scenario, double host_factor) {
  if (!scenario.model) return false;
  const std::string& model = scenario.model->name;
  const Captured captured = captured_steps(profile, model, scenario.precision);
  if (captured.factors.empty()) return false;
  const double usual = median(captured.factors), host = median(captured.hosts) * host_factor;
  for (OperatorEntry& entry : profile.operators) {
    if (entry.context != model || entry.precision != scenario.precision) continue;
    const auto own = captured.factor.find({entry.batch, entry.sequence});
    for (PassTiming& pass : entry.passes)
      scale(pass.device, own == captured.factor.end() ? usual : own->second);
  }
  for (OptimizerEntry& entry : profile.optimizers) set(entry.update.host, host);
  // The captured steps took the place of what whole steps say of the parts (whole_over_parts).
  for (StepEntry& step : profile.steps)
    if (step.model == model && step.precision == scenario.precision) step.step.median = 0;
  return true;
}

// The profile with the host times of steps that are launched so; `is_measured` is false where a captured step
// of the model was not.
std::shared_ptr<const Profile> launched(const Profile& given, const Scenario& scenario, double factor,
                                        bool& is_measured) {
  const bool is_graph = scenario.execution.cuda_graph;
  auto profile = std::make_shared<Profile>(given);
  each_timing(*profile, [&](PassTiming& timing) {
    if (is_graph) set(timing.host, 0);
    scale(timing.host, factor);
  });
  if (is_graph && !take_captured(*profile, scenario, factor)) {
    is_measured = false;
    const double launch = profile->launches.empty() ? assumed_launch : profile->launches.back().launch.median;
    for (OptimizerEntry& entry : profile->optimizers) set(entry.update.host, launch * factor);
  }
  return profile;
}

}  // namespace

bool has_captured_steps(const Scenario& scenario) {
  return scenario.profile && scenario.model &&
         !captured_steps(*scenario.profile, scenario.model->name, scenario.precision).factors.empty();
}

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
  bool is_measured = is_graph;
  auto made = std::make_shared<Scenario>(scenario);
  made->profile = launched(*scenario.profile, scenario, factor, is_measured);
  if (scenario.gpu_types) {
    GpuTypes types = *scenario.gpu_types;
    for (auto& profile : types.profiles) profile = launched(*profile, scenario, factor, is_measured);
    made->gpu_types = std::make_shared<const GpuTypes>(std::move(types));
  }
  if (factor != 1) {
    made->warnings.push_back(
        fmt::format("host: launching threads or cores are shared, so that launches take {:.3g} times as long "
                    "as calibrated",
                    factor));
  }
  if (is_graph && !is_measured) {
    made->warnings.push_back(
        "cuda_graph: the host takes one launch for a captured step (assumed: the profile has measured none "
        "of "
        "this model); collectives are launched as before, and kernels take as long");
  }
  changed = std::move(made);
}

}  // namespace foretrain

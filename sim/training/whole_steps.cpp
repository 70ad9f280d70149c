#include "sim/training/whole_steps.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>

#include "sim/training/gradient_copies.hpp"

namespace foretrain {
namespace {

// Of the step, from which on it may be the host that makes it long.
constexpr double busy_host = 0.9;
// A ratio further from 1 is no clock's: step and parts are of different devices or programs.
constexpr double largest_correction = 0.1;

}  // namespace

double share_between(std::int64_t low, std::int64_t high, std::int64_t batch) {
  const auto log_of = [](std::int64_t value) { return std::log(static_cast<double>(value)); };
  return (log_of(batch) - log_of(low)) / (log_of(high) - log_of(low));
}

bool is_step_of(const StepEntry& entry, const std::string& model, Precision precision,
                std::int64_t sequence) {
  return entry.model == model && entry.precision == precision && entry.sequence == sequence;
}

bool is_host_bound(const StepEntry& entry) {
  return entry.step.median > 0 && entry.host.median >= busy_host * entry.step.median;
}

TimedParts timed_parts(const Profile& profile, const std::string& model, Precision precision,
                       std::int64_t batch, std::int64_t sequence) {
  std::map<std::string_view, double> layers, work;
  for (const OperatorEntry& entry : profile.operators) {
    if (entry.batch != batch || entry.sequence != sequence || entry.precision != precision ||
        entry.context != model)
      continue;
    double& seconds = layers[entry.layer];
    seconds = 0;
    for (const PassTiming& pass : entry.passes) seconds += pass.device.median;
  }
  for (const StepWorkEntry& entry : profile.step_work) {
    if (entry.batch != batch || entry.sequence != sequence || entry.precision != precision ||
        entry.model != model)
      continue;
    if (entry.what != "input_copy" && entry.what != captured_step_work && entry.what != gradient_copies_work)
      work[entry.what] = entry.timing.device.median;
  }
  TimedParts out;
  for (const auto& [layer, seconds] : layers) out.passes += seconds;
  for (const OptimizerEntry& entry : profile.optimizers) {
    if (entry.model != model || entry.precision != precision) continue;
    out.beside = entry.update.device.median;
    out.has_update = true;
  }
  for (const auto& [what, seconds] : work) out.beside += seconds;
  return out;
}

double whole_over_parts(const Model& model, const Profile& profile, Precision precision, std::int64_t batch) {
  std::map<std::int64_t, double> steps;  // the latest of each batch
  for (const StepEntry& entry : profile.steps) {
    if (!is_step_of(entry, model.name, precision, model.sequence)) continue;
    if (entry.step.median > 0 && !is_host_bound(entry)) {
      steps[entry.batch] = entry.step.median;
    } else {
      steps.erase(entry.batch);
    }
  }
  const auto ratio = [&](std::map<std::int64_t, double>::const_iterator at) {
    const TimedParts parts = timed_parts(profile, model.name, precision, at->first, model.sequence);
    const double sum = parts.passes + parts.beside;
    const double found = parts.has_update && sum > 0 ? at->second / sum : 1;
    return std::abs(found - 1) > largest_correction ? 1 : found;
  };
  // Layers with times of their own are no part of what was timed.
  const auto has_own_times = [](const Layer& layer) { return layer.kind == LayerKind::measured; };
  if (steps.empty() || std::any_of(model.layers.begin(), model.layers.end(), has_own_times)) return 1;
  const auto above = steps.lower_bound(batch);
  if (above == steps.end()) return ratio(std::prev(above));
  if (above == steps.begin() || above->first == batch) return ratio(above);
  const auto below = std::prev(above);
  const double share = share_between(below->first, above->first, batch);
  return (1 - share) * ratio(below) + share * ratio(above);
}

double drift_of_cores(const Model& model, const Profile& profile, Precision precision) {
  if (profile.device != "cpu") return 0;
  std::map<std::int64_t, double> drifts;  // the latest of each batch
  for (const StepEntry& entry : profile.steps) {
    if (!is_step_of(entry, model.name, precision, model.sequence) || !(entry.step.median > 0)) continue;
    const TimedParts parts = timed_parts(profile, model.name, precision, entry.batch, model.sequence);
    const double sum = parts.passes + parts.beside;
    if (parts.has_update && sum > 0) drifts[entry.batch] = std::abs(entry.step.median / sum - 1);
  }
  double most = 0;
  for (const auto& [batch, drift] : drifts) most = std::max(most, drift);
  return most;
}

double shortest_over_parts(const Model& model, const Profile& profile, Precision precision,
                           std::int64_t batch) {
  std::map<std::int64_t, double> ratios;  // the latest of each batch
  for (const StepEntry& entry : profile.steps) {
    if (!is_step_of(entry, model.name, precision, model.sequence)) continue;
    const TimedParts parts = timed_parts(profile, model.name, precision, entry.batch, model.sequence);
    const double sum = parts.passes + parts.beside;
    ratios[entry.batch] =
        is_host_bound(entry) && parts.has_update && sum > entry.step.median ? entry.step.median / sum : 1;
  }
  if (ratios.empty()) return 1;
  const auto above = ratios.lower_bound(batch);
  if (above == ratios.end()) return std::prev(above)->second;
  if (above == ratios.begin() || above->first == batch) return above->second;
  return std::min(above->second, std::prev(above)->second);
}

}  // namespace foretrain

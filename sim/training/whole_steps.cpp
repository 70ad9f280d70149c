#include "sim/training/whole_steps.hpp"

#include <cmath>
#include <iterator>
#include <map>

namespace foretrain {
namespace {

// Of the step, from which on it may be the host that makes it long.
constexpr double busy_host = 0.9;
// A ratio further from 1 is no clock's: step and parts are of different devices or programs.
constexpr double largest_correction = 0.1;

}  // namespace

double whole_over_parts(const Model& model, const Profile& profile, Precision precision, std::int64_t batch,
                        const SumOfParts& parts) {
  std::map<std::int64_t, double> steps;  // the latest of each batch
  for (const StepEntry& entry : profile.steps) {
    if (entry.model != model.name || entry.precision != precision || entry.sequence != model.sequence)
      continue;
    if (entry.step.median > 0 && entry.host.median < busy_host * entry.step.median) {
      steps[entry.batch] = entry.step.median;
    } else {
      steps.erase(entry.batch);
    }
  }
  const auto ratio = [&](std::map<std::int64_t, double>::const_iterator at) {
    const std::optional<double> sum = parts(at->first);
    const double found = sum && *sum > 0 ? at->second / *sum : 1;
    return std::abs(found - 1) > largest_correction ? 1 : found;
  };
  if (steps.empty()) return 1;
  const auto above = steps.lower_bound(batch);
  if (above == steps.end()) return ratio(std::prev(above));
  if (above == steps.begin() || above->first == batch) return ratio(above);
  const auto below = std::prev(above);
  const double low = std::log(static_cast<double>(below->first)),
               high = std::log(static_cast<double>(above->first));
  const double share = (std::log(static_cast<double>(batch)) - low) / (high - low);
  return (1 - share) * ratio(below) + share * ratio(above);
}

}  // namespace foretrain

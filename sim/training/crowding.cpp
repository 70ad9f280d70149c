#include "sim/training/crowding.hpp"

#include <algorithm>

#include "sim/base/quantile.hpp"
#include "sim/training/whole_steps.hpp"

namespace foretrain {

std::vector<AddedByOther> added_by_others(const Profile& profile, const std::string& model,
                                          Precision precision, const AloneOf& alone_of) {
  std::vector<AddedByOther> own, any;
  for (const OverlapEntry& entry : profile.overlaps) {
    if (entry.ranks < 2 || !(entry.alone.median > 0)) continue;
    for (const StepEntry& step : profile.steps) {
      if (!is_step_of(step, entry.model, entry.precision, entry.sequence) || step.batch != entry.batch)
        continue;
      const std::optional<double> alone = alone_of(entry, step);
      if (!alone) continue;
      const AddedByOther added{std::max(0.0, entry.alone.median / *alone - 1) / (entry.ranks - 1),
                               entry.ranks};
      any.push_back(added);
      if (entry.model == model && entry.precision == precision) own.push_back(added);
    }
  }
  return own.empty() ? any : own;
}

Crowding crowding_of(const Profile& profile, const std::string& model, Precision precision, int workers) {
  if (profile.device != "cpu" || workers < 2) return {};
  const AloneOf whole_step = [](const OverlapEntry& entry, const StepEntry& step) {
    const double alone = entry.one.repetitions > 0 ? entry.one.median : step.step.median;
    return alone > 0 ? std::optional(alone) : std::nullopt;
  };
  std::vector<double> seen;
  for (const AddedByOther& added : added_by_others(profile, model, precision, whole_step))
    seen.push_back(1 + added.share * (workers - 1));
  if (seen.empty()) return {};
  const auto [least, most] = std::minmax_element(seen.begin(), seen.end());
  const double factor = median(seen);
  return {factor, *most / factor - 1, 1 - *least / factor};
}

std::vector<int> threads_of(const Profile& profile) {
  std::vector<int> out;
  if (profile.device != "cpu") return out;
  for (const CalibrationRun& run : profile.runs)
    if (run.machine.multiprocessors > 0) out.push_back(run.machine.multiprocessors);
  return out;
}

}  // namespace foretrain

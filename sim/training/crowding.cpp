#include "sim/training/crowding.hpp"

#include <algorithm>

#include "sim/base/quantile.hpp"
#include "sim/training/whole_steps.hpp"

namespace foretrain {

namespace {

// Of the entries of one model and precision, else of all.
class Added {
 public:
  Added(const std::string& model, Precision precision) : model_(model), precision_(precision) {}

  void add(const OverlapEntry& entry, double alone) {
    if (entry.ranks < 2 || !(entry.alone.median > 0) || !(alone > 0)) return;
    const AddedByOther added{std::max(0.0, entry.alone.median / alone - 1) / (entry.ranks - 1), entry.ranks};
    any_.push_back(added);
    if (entry.model == model_ && entry.precision == precision_) own_.push_back(added);
  }
  std::vector<AddedByOther> found() && { return std::move(own_.empty() ? any_ : own_); }

 private:
  const std::string& model_;
  Precision precision_;
  std::vector<AddedByOther> own_, any_;
};

// Over the steps of one in turns with those of several.
std::vector<AddedByOther> added_in_turns(const Profile& profile, const std::string& model,
                                         Precision precision) {
  Added added(model, precision);
  for (const OverlapEntry& entry : profile.overlaps)
    if (entry.one.repetitions > 0) added.add(entry, entry.one.median);
  return std::move(added).found();
}

}  // namespace

std::vector<AddedByOther> added_by_others(const Profile& profile, const std::string& model,
                                          Precision precision, const AloneOf& alone_of) {
  Added added(model, precision);
  for (const OverlapEntry& entry : profile.overlaps) {
    for (const StepEntry& step : profile.steps) {
      if (!is_step_of(step, entry.model, entry.precision, entry.sequence) || step.batch != entry.batch)
        continue;
      if (const std::optional<double> alone = alone_of(step)) added.add(entry, *alone);
    }
  }
  return std::move(added).found();
}

Crowding crowding_of(const Profile& profile, const std::string& model, Precision precision, int workers) {
  if (profile.device != "cpu" || workers < 2) return {};
  std::vector<AddedByOther> found = added_in_turns(profile, model, precision);
  if (found.empty()) {
    const AloneOf whole_step = [](const StepEntry& step) { return std::optional(step.step.median); };
    found = added_by_others(profile, model, precision, whole_step);
  }
  if (found.empty()) return {};
  std::vector<double> seen;
  for (const AddedByOther& added : found) seen.push_back(1 + added.share * (workers - 1));
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

#include "sim/training/host_speed.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/base/quantile.hpp"
#include "sim/training/crowding.hpp"
#include "sim/training/whole_steps.hpp"

namespace foretrain {
namespace {

// Steps of more or fewer launches by this factor are other programs.
constexpr double like_launches = 1.3;
// Fewer windows of a model do not show how far its host strays.
constexpr std::size_t enough_windows = 4;

// A step of a trace was never timed.
bool is_timed_and_bound(const StepEntry& entry) {
  return entry.step.repetitions > 0 && is_host_bound(entry);
}

// Seconds a launch.
std::vector<double> windows_of(const StepEntry& entry) {
  std::vector<double> windows;
  if (!(entry.launches > 0) || entry.host.repetitions == 0 || !(entry.host.median > 0)) return windows;
  windows.push_back(entry.host.median / entry.launches);
  if (is_timed_and_bound(entry)) windows.push_back(entry.step.median / entry.launches);
  return windows;
}

// Of all steps of the profile, over the median of their model's.
std::vector<double> all_windows(const Profile& profile) {
  std::map<std::tuple<std::string, Precision, std::int64_t>, std::vector<double>> of_model;
  for (const StepEntry& entry : profile.steps) {
    const std::vector<double> found = windows_of(entry);
    std::vector<double>& all = of_model[{entry.model, entry.precision, entry.sequence}];
    all.insert(all.end(), found.begin(), found.end());
  }
  std::vector<double> out;
  for (const auto& [key, windows] : of_model) {
    if (windows.size() < enough_windows) continue;
    const double middle = median(windows);
    for (const double window : windows) out.push_back(window / middle);
  }
  return out;
}

void stray(HostSpeed& speed, const std::vector<double>& windows, double middle) {
  const auto [least, most] = std::minmax_element(windows.begin(), windows.end());
  speed.slower = *most / middle - 1;
  speed.faster = 1 - *least / middle;
}

}  // namespace

HostSpeed host_speed(const Profile& profile, const std::string& model, Precision precision,
                     std::int64_t sequence, std::int64_t batch) {
  std::map<std::int64_t, const StepEntry*> entries;  // the latest of each batch
  for (const StepEntry& entry : profile.steps) {
    if (is_step_of(entry, model, precision, sequence) && !windows_of(entry).empty())
      entries[entry.batch] = &entry;
  }
  HostSpeed speed;
  if (!entries.empty()) {
    const auto a_launch = [](const StepEntry& entry) { return entry.host.median / entry.launches; };
    const auto above = entries.lower_bound(batch);
    const StepEntry* near = above == entries.end() ? std::prev(above)->second : above->second;
    double here = a_launch(*near);
    if (above != entries.end() && above != entries.begin() && above->first != batch) {
      const StepEntry* below = std::prev(above)->second;
      const double share = share_between(below->batch, near->batch, batch);
      here = (1 - share) * a_launch(*below) + share * here;
    }
    std::vector<double> windows;
    for (const auto& [other, entry] : entries) {
      const double ratio = entry->launches / near->launches;
      if (ratio > like_launches || ratio < 1 / like_launches) continue;
      const std::vector<double> found = windows_of(*entry);
      windows.insert(windows.end(), found.begin(), found.end());
    }
    speed.windows = static_cast<int>(windows.size());
    if (windows.size() >= enough_windows) {
      const double middle = median(windows);
      speed.factor = middle / here;
      stray(speed, windows, middle);
      return speed;
    }
  }
  // Of a length that was not timed, or at few batches: the host is the same at the others.
  std::vector<double> of_lengths;
  for (const StepEntry& entry : profile.steps) {
    if (!is_step_of(entry, model, precision, entry.sequence)) continue;
    const std::vector<double> found = windows_of(entry);
    of_lengths.insert(of_lengths.end(), found.begin(), found.end());
  }
  if (of_lengths.size() >= enough_windows) {
    stray(speed, of_lengths, median(of_lengths));
    return speed;
  }
  const std::vector<double> all = all_windows(profile);
  if (!all.empty()) stray(speed, all, 1);
  return speed;
}

LaunchContention launch_contention(const Profile& profile, const std::string& model, Precision precision,
                                   int workers) {
  if (profile.device != "cuda" || workers < 2) return {};
  const AloneOf issued_alone = [&](const StepEntry& step) -> std::optional<double> {
    if (!is_timed_and_bound(step) || !(step.launches > 0)) return std::nullopt;
    return host_speed(profile, step.model, step.precision, step.sequence, step.batch).factor *
           step.host.median;
  };
  const std::vector<AddedByOther> found = added_by_others(profile, model, precision, issued_alone);
  if (found.empty()) return {};
  std::vector<double> seen;
  double most = 0;
  for (const AddedByOther& added : found) {
    seen.push_back(added.share * (std::min(workers, added.ranks) - 1));
    most = std::max(most, added.share * (workers - 1));
  }
  const double factor = 1 + median(seen), least = 1 + *std::min_element(seen.begin(), seen.end());
  return {factor, (1 + most) / factor - 1, 1 - least / factor};
}

}  // namespace foretrain

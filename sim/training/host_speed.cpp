#include "sim/training/host_speed.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

#include "sim/base/quantile.hpp"
#include "sim/training/whole_steps.hpp"

namespace foretrain {
namespace {

// Of the step, from which on it is its host that makes it long.
constexpr double busy_host = 0.9;
// Steps of more or fewer launches by this factor are other programs.
constexpr double like_launches = 1.3;
// Fewer windows of a model do not show how far its host strays.
constexpr std::size_t enough_windows = 4;

bool is_host_bound(const StepEntry& entry) {
  return entry.step.repetitions > 0 && entry.host.median >= busy_host * entry.step.median;
}

// Seconds a launch.
std::vector<double> windows_of(const StepEntry& entry) {
  std::vector<double> windows;
  if (!(entry.launches > 0) || entry.host.repetitions == 0 || !(entry.host.median > 0)) return windows;
  windows.push_back(entry.host.median / entry.launches);
  if (is_host_bound(entry)) windows.push_back(entry.step.median / entry.launches);
  return windows;
}

bool is_of(const StepEntry& entry, const std::string& model, Precision precision, std::int64_t sequence) {
  return entry.model == model && entry.precision == precision && entry.sequence == sequence;
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
    if (is_of(entry, model, precision, sequence) && !windows_of(entry).empty()) entries[entry.batch] = &entry;
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
  const std::vector<double> all = all_windows(profile);
  if (!all.empty()) stray(speed, all, 1);
  return speed;
}

LaunchContention launch_contention(const Profile& profile, const std::string& model, Precision precision,
                                   int workers) {
  if (profile.device != "cuda" || workers < 2) return {};
  struct Added {
    double seen, on_line;  // as far as calibration had threads; in proportion to how many others there are
  };
  std::vector<Added> own, any;
  for (const OverlapEntry& entry : profile.overlaps) {
    if (entry.ranks < 2 || !(entry.alone.median > 0)) continue;
    for (const StepEntry& step : profile.steps) {
      if (!is_of(step, entry.model, entry.precision, entry.sequence) || step.batch != entry.batch) continue;
      if (!is_host_bound(step) || !(step.launches > 0)) continue;
      const HostSpeed speed = host_speed(profile, entry.model, entry.precision, entry.sequence, entry.batch);
      const double alone = speed.factor * step.host.median;
      const double each = std::max(0.0, entry.alone.median / alone - 1) / (entry.ranks - 1);
      const Added added{each * (std::min(workers, entry.ranks) - 1), each * (workers - 1)};
      any.push_back(added);
      if (entry.model == model && entry.precision == precision) own.push_back(added);
    }
  }
  const std::vector<Added>& found = own.empty() ? any : own;
  if (found.empty()) return {};
  std::vector<double> seen;
  double most = 0;
  for (const Added& added : found) {
    seen.push_back(added.seen);
    most = std::max(most, added.on_line);
  }
  const double factor = 1 + median(seen), least = 1 + *std::min_element(seen.begin(), seen.end());
  return {factor, (1 + most) / factor - 1, 1 - least / factor};
}

}  // namespace foretrain

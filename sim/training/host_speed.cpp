#include "sim/training/host_speed.hpp"

#include <algorithm>
#include <cmath>
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
// The slow speed of a virtual host over its fast one: 33 to 35 and 44 to 49 ms a step in thirty runs of one
// model on two machines of H200s, with nothing else running on them, whatever the core.
constexpr double two_speeds = 1.45;
// No host that strays far is thought to launch for nothing.
constexpr double most_faster = 0.75;

// A step of a trace was never timed.
bool is_timed_and_bound(const StepEntry& entry) {
  return entry.step.repetitions > 0 && is_host_bound(entry);
}

// Seconds a launch, as one stretch of a calibration has them.
struct HostWindow {
  double median = 0, low = 0, high = 0;
};

HostWindow window_of(const Sample& time, double scale) {
  const bool has_bounds = time.low > 0 && time.high >= time.low;
  const double low = has_bounds ? std::min(time.low, time.median) : time.median;
  const double high = has_bounds ? std::max(time.high, time.median) : time.median;
  return {time.median * scale, low * scale, high * scale};
}

std::vector<HostWindow> windows_of(const StepEntry& entry) {
  std::vector<HostWindow> windows;
  if (!(entry.launches > 0) || entry.host.repetitions == 0 || !(entry.host.median > 0)) return windows;
  windows.push_back(window_of(entry.host, 1 / entry.launches));
  if (is_timed_and_bound(entry)) windows.push_back(window_of(entry.step, 1 / entry.launches));
  return windows;
}

// All windows of some steps; those of one step were seen at about one time.
struct Windows {
  std::vector<HostWindow> all;
  int times = 0;

  void add(std::vector<HostWindow> found) {
    if (found.empty()) return;
    all.insert(all.end(), found.begin(), found.end());
    ++times;
  }
  bool are_enough() const { return all.size() >= enough_windows; }
  double middle() const {
    std::vector<double> medians;
    for (const HostWindow& window : all) medians.push_back(window.median);
    return median(medians);
  }
};

// Of all steps of the profile, over the median of their model's.
Windows all_windows(const Profile& profile) {
  std::map<std::tuple<std::string, Precision, std::int64_t>, Windows> of_model;
  for (const StepEntry& entry : profile.steps)
    of_model[{entry.model, entry.precision, entry.sequence}].add(windows_of(entry));
  Windows out;
  for (const auto& [key, windows] : of_model) {
    if (!windows.are_enough()) continue;
    const double middle = windows.middle();
    for (const HostWindow& window : windows.all)
      out.all.push_back({window.median / middle, window.low / middle, window.high / middle});
    out.times += windows.times;
  }
  return out;
}

// How far beyond the extremes of n draws, in their range, another draw lies but once in ten: it is the
// largest or the least of n + 1 in 2 of n + 1 cases, and then by more than a share e of the range of the
// others with (1 + e)^-(n - 1), if draws are uniform.
double beyond_extremes(int draws) {
  constexpr double outside = 0.1;
  constexpr int fewest = 4;  // of fewer the range says next to nothing
  const double n = std::max(draws, fewest);
  return std::max(std::pow(2 / (outside * (n + 1)), 1 / (n - 1)) - 1, 0.0);
}

bool is_virtual(const Profile& profile) {
  return std::any_of(profile.runs.begin(), profile.runs.end(),
                     [](const CalibrationRun& run) { return run.machine.virtual_machine; });
}

void stray(HostSpeed& speed, const Profile& profile, const Windows& windows, double middle) {
  double least = middle, most = middle;
  for (const HostWindow& window : windows.all) {
    least = std::min(least, window.low);
    most = std::max(most, window.high);
  }
  const double further = beyond_extremes(windows.times) * (most - least);
  double slowest = most + further, fastest = least - further;
  // A calibration may have seen one of the two speeds alone, and does not know which.
  if (is_virtual(profile)) {
    slowest = std::max(slowest, two_speeds * least);
    fastest = std::min(fastest, most / two_speeds);
  }
  speed.slower = slowest / middle - 1;
  speed.faster = std::min(1 - fastest / middle, most_faster);
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
    Windows windows;
    for (const auto& [other, entry] : entries) {
      const double ratio = entry->launches / near->launches;
      if (ratio > like_launches || ratio < 1 / like_launches) continue;
      windows.add(windows_of(*entry));
    }
    speed.windows = static_cast<int>(windows.all.size());
    if (windows.are_enough()) {
      const double middle = windows.middle();
      speed.factor = middle / here;
      stray(speed, profile, windows, middle);
      return speed;
    }
  }
  // Of a length that was not timed, or at few batches: the host is the same at the others.
  Windows of_lengths;
  for (const StepEntry& entry : profile.steps)
    if (is_step_of(entry, model, precision, entry.sequence)) of_lengths.add(windows_of(entry));
  if (of_lengths.are_enough()) {
    stray(speed, profile, of_lengths, of_lengths.middle());
    return speed;
  }
  const Windows all = all_windows(profile);
  if (!all.all.empty()) stray(speed, profile, all, 1);
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

#include "sim/training/breakdown.hpp"

#include <algorithm>
#include <vector>

namespace foretrain {
namespace {

struct Interval {
  Time start, end;
};

Interval clip(Interval a, Interval window) {
  return {std::max(a.start, window.start), std::min(a.end, window.end)};
}

// Sorted and joined, clipped to the window.
std::vector<Interval> united(std::vector<Interval> all, Interval window) {
  std::vector<Interval> out;
  const auto begins_before = [](Interval a, Interval b) { return a.start < b.start; };
  if (!std::is_sorted(all.begin(), all.end(), begins_before))  // those of one stream are
    std::sort(all.begin(), all.end(), begins_before);
  for (Interval each : all) {
    each = clip(each, window);
    if (each.start >= each.end) continue;
    if (!out.empty() && each.start <= out.back().end) {
      out.back().end = std::max(out.back().end, each.end);
    } else {
      out.push_back(each);
    }
  }
  return out;
}

Time length(const std::vector<Interval>& all) {
  Time sum;
  for (const Interval& each : all) sum += each.end - each.start;
  return sum;
}

// Length of what lies in both; both are united.
std::vector<Interval> common(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval both = clip(a[i], b[j]);
    if (both.start < both.end) out.push_back(both);
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return out;
}

// What of `a` is not in `b`.
std::vector<Interval> without(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> out;
  std::size_t j = 0;
  for (Interval each : a) {
    while (j < b.size() && b[j].end <= each.start) ++j;
    Time at = each.start;
    for (std::size_t k = j; k < b.size() && b[k].start < each.end; ++k) {
      if (b[k].start > at) out.push_back({at, b[k].start});
      at = std::max(at, b[k].end);
    }
    if (at < each.end) out.push_back({at, each.end});
  }
  return out;
}

}  // namespace

StepUse step_use(const ReplayInput& input, const ReplayResult& result, int rank_class) {
  const auto c = static_cast<std::size_t>(rank_class);
  const Interval window{result.classes[c].begin, result.classes[c].end};
  const auto& operations =
      input.graph->programs[static_cast<std::size_t>(input.classes[c].program)].operations;

  std::vector<Interval> phases[5], kernels, waiting, running, copying;
  for (const ReplaySlice& slice : result.slices) {
    if (slice.rank_class != rank_class) continue;
    const Interval all{slice.start, slice.end};
    if (slice.track == Track::compute) {
      // Where the host was too slow the device starved within the slice; count its work at the end of the
      // slice.
      const Interval busy{slice.end - slice.busy, slice.end};
      phases[static_cast<std::size_t>(operations[static_cast<std::size_t>(slice.operation)].phase)].push_back(
          busy);
      if (operations[static_cast<std::size_t>(slice.operation)].phase != Phase::input)
        kernels.push_back(busy);
    } else if (slice.track == Track::communication) {
      (slice.waiting ? waiting : running).push_back(all);
    } else if (slice.track == Track::copy) {
      copying.push_back(all);
    }
  }

  StepUse use;
  auto seconds = [](const std::vector<Interval>& all) { return length(all).in_seconds(); };
  auto phase = [&](Phase p) { return seconds(united(phases[static_cast<std::size_t>(p)], window)); };
  use.breakdown.forward = phase(Phase::forward);
  use.breakdown.backward = phase(Phase::backward);
  use.breakdown.optimizer = phase(Phase::optimizer);
  const auto computing = united(kernels, window);
  std::vector<Interval> idle = without({window}, computing);
  auto take = [&](const std::vector<Interval>& cause) {
    const std::vector<Interval> part = common(idle, cause);
    idle = without(idle, part);
    return seconds(part);
  };
  use.breakdown.input =
      take(united(phases[static_cast<std::size_t>(Phase::input)], window)) + take(united(copying, window));
  use.breakdown.waiting = take(united(waiting, window));
  use.breakdown.exposed_communication = take(united(running, window));
  use.breakdown.host = seconds(idle);

  std::vector<Interval> collectives = waiting;
  collectives.insert(collectives.end(), running.begin(), running.end());
  use.computing = seconds(computing);
  use.communicating = seconds(united(collectives, window));
  use.collective_running = seconds(united(running, window));
  collectives.insert(collectives.end(), kernels.begin(), kernels.end());
  use.busy = seconds(united(collectives, window));
  return use;
}

}  // namespace foretrain

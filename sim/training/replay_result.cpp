// Which step is reported, and of which class.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/training/replay_engine.hpp"

namespace foretrain {

ReplayResult ReplayEngine::result() {
  ReplayResult out;
  for (const auto& each : queues_) out.events += each.processed();
  out.classes.resize(own_);
  std::size_t last = 0;
  for (std::size_t c = 0; c < own_; ++c) {
    const auto& ends = ranks_[c].step_end;
    if (static_cast<int>(ends.size()) < input_.steps) {
      throw Error(ErrorKind::failure,
                  fmt::format("the replay stopped in step {} of {}: ranks wait for each other",
                              ends.size() + 1, input_.steps));
    }
    if (work_[c] > work_[static_cast<std::size_t>(out.slowest)]) out.slowest = static_cast<int>(c);
  }
  out.reported = own_ < ranks_.size() ? median_step(static_cast<std::size_t>(out.slowest)) : input_.steps - 1;
  const auto step = static_cast<std::size_t>(out.reported);
  for (std::size_t c = 0; c < own_; ++c) {
    const auto& ends = ranks_[c].step_end;
    out.classes[c] = {ends[step - 1], ends[step]};
    if (ends[step] > ranks_[last].step_end[step]) last = c;
  }
  out.step = out.classes[last].duration();
  if (own_ == ranks_.size() && input_.steps >= 3) {
    const auto& ends = ranks_[last].step_end;
    const Time previous = ends[step - 1] - ends[step - 2];
    const double change = std::fabs(static_cast<double>((out.step - previous).count()));
    out.steady = change <= 1e-3 * static_cast<double>(out.step.count());
  }
  std::erase_if(slices_, [&](const ReplaySlice& slice) {
    return slice.step != out.reported && slice.step != out.reported - 1;
  });
  std::stable_sort(slices_.begin(), slices_.end(),
                   [](const ReplaySlice& a, const ReplaySlice& b) { return a.end < b.end; });
  out.slices = std::move(slices_);
  return out;
}

// Of those after the first ones; beside other jobs steps differ.
int ReplayEngine::median_step(std::size_t c) const {
  const auto& ends = ranks_[c].step_end;
  std::vector<int> steps;
  for (int step = std::min(settled, input_.steps - 1); step < input_.steps; ++step) steps.push_back(step);
  auto duration = [&](int step) {
    return ends[static_cast<std::size_t>(step)] - ends[static_cast<std::size_t>(step) - 1];
  };
  std::stable_sort(steps.begin(), steps.end(), [&](int a, int b) { return duration(a) < duration(b); });
  return steps[(steps.size() - 1) / 2];
}

}  // namespace foretrain

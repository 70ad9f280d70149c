#include "sim/training/crowding.hpp"

#include <algorithm>
#include <vector>

#include "sim/base/quantile.hpp"

namespace foretrain {

double crowding_factor(const Profile& profile, const std::string& model, Precision precision, int workers) {
  if (profile.device != "cpu" || workers < 2) return 1;
  std::vector<double> own, any;  // what each other worker adds
  for (const OverlapEntry& entry : profile.overlaps) {
    if (entry.ranks < 2 || !(entry.alone.median > 0)) continue;
    for (const StepEntry& step : profile.steps) {
      const bool is_same = step.model == entry.model && step.precision == entry.precision &&
                           step.batch == entry.batch && step.sequence == entry.sequence;
      if (!is_same || !(step.step.median > 0)) continue;
      const double added = std::max(0.0, entry.alone.median / step.step.median - 1) / (entry.ranks - 1);
      any.push_back(added);
      if (entry.model == model && entry.precision == precision) own.push_back(added);
    }
  }
  const std::vector<double>& added = own.empty() ? any : own;
  return added.empty() ? 1 : 1 + median(added) * (workers - 1);
}

}  // namespace foretrain

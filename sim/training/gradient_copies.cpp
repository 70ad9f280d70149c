#include "sim/training/gradient_copies.hpp"

#include <algorithm>
#include <cmath>

namespace foretrain {

void add_gradient_copies(StepTimes& times, const Model& model, const Profile& profile, Precision precision) {
  const auto work =
      std::find_if(profile.step_work.begin(), profile.step_work.end(), [&](const StepWorkEntry& entry) {
        return entry.what == gradient_copies_work && entry.model == model.name &&
               entry.precision == precision;
      });
  if (work == profile.step_work.end() || times.gradient_ready.empty() || times.backward.empty()) return;
  const double device = work->timing.device.median, host = work->timing.host.median;
  const auto count = static_cast<double>(times.gradient_ready.size());
  double elements = 0;
  for (const std::int64_t each : times.parameter_elements) elements += static_cast<double>(each);
  for (std::size_t p = 0; p < times.gradient_ready.size(); ++p) {
    StepItem& item = times.backward[static_cast<std::size_t>(times.gradient_ready[p])];
    item.device += device * static_cast<double>(times.parameter_elements[p]) / std::max(1.0, elements);
    item.host += host / count;
    ++item.launches;
  }
  StepItem back;
  back.name = "gradients from buckets";
  back.phase = Phase::optimizer;
  back.device = device;
  back.host = host;
  back.launches = static_cast<int>(std::lround(work->timing.launches));
  times.update.insert(times.update.begin(), back);
}

}  // namespace foretrain

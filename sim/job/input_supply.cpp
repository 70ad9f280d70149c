#include "sim/job/input_supply.hpp"

#include <algorithm>

namespace foretrain {

double batch_supply_time(const InputPipeline* input, double share, bool is_first_epoch) {
  if (input == nullptr) return 0;
  const Rate rate = is_first_epoch ? input->read : input->cached;
  const double reading = rate.bytes_per_second() > 0
                             ? share * static_cast<double>(input->sample.count()) / rate.bytes_per_second()
                             : 0;
  return std::max(reading, share * input->decode / input->workers);
}

double Supply::spend(std::int64_t updates, double step, double supply) {
  const auto n = static_cast<double>(updates);
  if (supply <= 0) {
    ready = depth;
    return n * step;
  }
  if (depth == 0) return n * (step + supply);
  const double first = std::max(0.0, (1 - ready) * supply);
  const double time = step + std::max(first + (n - 1) * step, (n - ready) * supply);
  ready = std::clamp(ready + time / supply - n, 0.0, static_cast<double>(depth));
  return time;
}

void Supply::pause(double seconds, double supply) {
  if (supply > 0) ready = std::min(static_cast<double>(depth), ready + seconds / supply);
}

}  // namespace foretrain

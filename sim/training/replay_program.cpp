#include "sim/training/replay_program.hpp"

#include <algorithm>

namespace foretrain {

ReplayProgram::ReplayProgram(const RankProgram& program, double host_factor) : program_(&program) {
  steps_.reserve(program.operations.size());
  for (const Operation& operation : program.operations) {
    ReplayStep step;
    step.host = operation.host * host_factor;
    step.first = step.host * (1.0 / std::max(operation.launches, 1));
    step.device = static_cast<double>(operation.device.count());
    step.launches = operation.launches;
    step.group = operation.group;
    step.after_begin = static_cast<std::uint32_t>(after_.size());
    after_.insert(after_.end(), operation.after.begin(), operation.after.end());
    step.after_end = static_cast<std::uint32_t>(after_.size());
    step.stream = static_cast<std::uint8_t>(operation.stream);
    if (operation.stream == StreamId::compute) last_compute_ = static_cast<int>(steps_.size());
    places_[step.stream].push_back(static_cast<std::int32_t>(steps_.size()));
    steps_.push_back(step);
  }
}

}  // namespace foretrain

#include "sim/training/replay_program.hpp"

#include <algorithm>

namespace foretrain {

ReplayProgram::ReplayProgram(const RankProgram& program) : program_(&program) {
  steps_.reserve(program.operations.size());
  for (const Operation& operation : program.operations) {
    ReplayStep step;
    step.device = static_cast<double>(operation.device.count());
    step.launches = operation.launches;
    step.group = operation.group;
    step.after_begin = static_cast<std::uint32_t>(after_.size());
    step.stream = static_cast<std::uint8_t>(operation.stream);
    for (const int before : operation.after) {
      ReplayStep& earlier = steps_[static_cast<std::size_t>(before)];
      if (earlier.stream == step.stream) continue;  // a stream's own have finished in any case
      earlier.wakes |= static_cast<std::uint8_t>(1u << step.stream);
      after_.push_back(before);
    }
    step.after_end = static_cast<std::uint32_t>(after_.size());
    if (operation.stream == StreamId::compute) last_compute_ = static_cast<int>(steps_.size());
    step.order = static_cast<std::int32_t>(places_[step.stream].size());
    places_[step.stream].push_back(static_cast<std::int32_t>(steps_.size()));
    steps_.push_back(step);
  }
  for (const std::int32_t place : places(static_cast<int>(StreamId::compute))) {
    const ReplayStep& step = (*this)[place];
    kernels_.push_back({step.device, place, step.launches,
                        step.group >= 0 || step.after_begin < step.after_end,
                        step.wakes != 0 || place == last_compute_});
  }
}

HostTimes::HostTimes(const RankProgram& program, double factor) {
  operations_.reserve(program.operations.size());
  between_.reserve(program.operations.size());
  for (const Operation& operation : program.operations) {
    const Time host = rounded_work(static_cast<double>(operation.host.count()) * factor);
    operations_.push_back({host, operation.launches, 1u << static_cast<unsigned>(operation.stream)});
    between_.push_back(operation.launches > 1 ? host - rounded_work(static_cast<double>(host.count()) *
                                                                    (1.0 / operation.launches))
                                              : Time());
  }
}

}  // namespace foretrain

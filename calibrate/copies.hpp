// Copies between host and device, and the copy of a step's input.
#pragma once

#include "calibrate/session.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

// 4 KiB to 64 MiB, pinned and not; to device `peer` of this process where peer >= 0. Bounded by `seconds`.
std::vector<CopyEntry> measure_copies(Session& session, int peer, double seconds);

// Program::set_input from host memory: device time of the copy, and host time to stage and launch it.
PassTiming measure_input_copy(Session& session, device::Program& program, const Model& model,
                              std::int64_t batch, double event_gap, double seconds);

}  // namespace foretrain::calibrate

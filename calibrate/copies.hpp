// Copies between host and device, and the copy of a step's input.
#pragma once

#include "calibrate/session.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

// 4 KiB to 64 MiB, between host and device, pinned and not, and within the device. Bounded by `seconds`.
std::vector<CopyEntry> measure_copies(Session& session, double seconds);
// To device `peer` of this process. After everything else: with access to another device enabled each kernel
// of this one begins later (docs/cuda-backend.md).
std::vector<CopyEntry> measure_peer_copies(Session& session, int peer, double seconds);

// Program::set_input from host memory: device time of the copy, and host time to stage and launch it.
PassTiming measure_input_copy(Session& session, device::Program& program, const Model& model,
                              std::int64_t batch, double event_gap, double seconds);

}  // namespace foretrain::calibrate

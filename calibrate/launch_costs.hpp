// What a launch, an event and a wait between streams cost on this host and device.
#pragma once

#include "calibrate/session.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::calibrate {

// Takes about 0.2 s. Chains of kernels of known time are issued behind a gate, so that the device has its
// queue full:
//   gap        = (time of a chain of n kernels) / n - spin time of one; with it, the rest that a kernel's
//   time
//                is short of its period
//   event_gap  = (time of the chain with an event after each kernel - time without) / n
//   event_wait = (start after another stream's event) - the same kernel in its own stream
//   latency    = launch to seen end of an empty kernel on an idle device, less the kernel and its event: an
//                upper bound, for it includes the way of the news back to the host
LaunchCosts measure_launch_costs(Session& session);

}  // namespace foretrain::calibrate

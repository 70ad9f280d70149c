// Collectives by Gloo over TCP, on a worker's communication stream.
#pragma once

#include <memory>

#include "device/backend.hpp"
#include "device/cpu/stream.hpp"

namespace foretrain::device::cpu {

CommunicatorId make_communicator_id();
// Blocks until all ranks have come. Throws Error (unavailable) where the backend was built without Gloo.
std::unique_ptr<Communicator> join_communicator(Stream& stream, const CommunicatorId& id, int rank,
                                                int ranks);

}  // namespace foretrain::device::cpu

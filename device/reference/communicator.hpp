// Collectives between the threads of one process: every rank brings its buffer, the last to come lets all go
// on. Sums are taken in rank order, so that all ranks get the same bits.
#pragma once

#include <memory>

#include "device/backend.hpp"

namespace foretrain::device::reference {

CommunicatorId make_communicator_id();
// Returns when all ranks have joined. Throws where ranks disagree on their number or two have the same rank.
std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks);

}  // namespace foretrain::device::reference

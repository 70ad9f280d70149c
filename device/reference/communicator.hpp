// Collectives between ranks of one machine, threads or processes, through a file in memory: every rank shows
// its buffer, and takes what belongs to it. Sums are taken in rank order, so that all ranks get the same
// bits.
#pragma once

#include <memory>

#include "device/backend.hpp"

namespace foretrain::device::reference {

// Of NCCL_COMM_ID where it is set, as NCCL does: every process gives its n-th the same name.
CommunicatorId make_communicator_id();
// Returns when all ranks have joined. Throws where they do not come within two minutes, where they disagree
// on their number, or two have the same rank.
std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks);

}  // namespace foretrain::device::reference

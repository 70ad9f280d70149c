// Collectives by NCCL on a worker's communication stream. Communicators block: with non-blocking ones NCCL
// starts a thread for each collective, which held up steps bound by their host by a tenth to the double.
// Making and leaving one, which may wait for other ranks, have limits; another thread may abort it.
// Connections are made with it.
#pragma once

#include <memory>

#include "device/backend.hpp"
#include "device/cuda/context.hpp"

namespace foretrain::device::cuda {

CommunicatorId make_communicator_id();
std::unique_ptr<Communicator> join_communicator(Context& context, const CommunicatorId& id, int rank,
                                                int ranks);

// Asks NCCL to log its choice of algorithm for each collective to a file of this process, where the
// environment does not direct its log elsewhere; before the first communicator. Communicator::choice() reads
// it.
void log_choices();

}  // namespace foretrain::device::cuda

// How processes agree on a communicator's name: by the library's own address (NCCL_COMM_ID: every rank's
// ncclGetUniqueId gives the same name), or through a file that rank 0 writes (FORETRAIN_RENDEZVOUS: a path
// that all processes see and that does not exist yet).
#pragma once

#include <atomic>
#include <string>

#include "device/backend.hpp"
#include "device/launch_environment.hpp"

namespace foretrain {

struct Rendezvous {
  enum class Kind { in_process, address, file } kind = Kind::in_process;
  std::string address;  // "host:port", for NCCL_COMM_ID
  std::string path;
};

// NCCL_COMM_ID, else FORETRAIN_RENDEZVOUS, else MASTER_ADDR and MASTER_PORT (the port after it under
// torchrun, whose own store listens on the first). Throws Error (input) where several processes have none of
// them.
Rendezvous choose_rendezvous(const LaunchEnvironment& launch, const Environment& environment);

// The name of the n-th communicator of the run. Blocks until rank 0 has written it (kind file); throws Error
// (failure) after `limit` seconds or where `stop` is set.
device::CommunicatorId meet(const Rendezvous& rendezvous, device::Backend& backend, bool first_process, int n,
                            double limit, const std::atomic<bool>& stop);
// After all ranks have joined: removes the file.
void clean(const Rendezvous& rendezvous, bool first_process, int n);

}  // namespace foretrain

// The double-precision backend on the host. Streams have no queue: what is enqueued has run when the call
// returns, and events carry the wall clock of their recording.
#pragma once

#include <memory>

#include "device/backend.hpp"

namespace foretrain::device::reference {

std::unique_ptr<Backend> make_backend();

}  // namespace foretrain::device::reference

// The CPU backend: layers by oneDNN, collectives by Gloo. A worker is a team of threads pinned to cores of
// its own; its streams are threads with a queue, so that computing, exchanging and the host overlap as they
// do on a GPU.
#pragma once

#include <memory>

#include "device/backend.hpp"

namespace foretrain::device::cpu {

std::unique_ptr<Backend> make_backend();

}  // namespace foretrain::device::cpu

// A model in double precision on the host: every layer pass is an item of its own, and runs when it is
// issued.
#pragma once

#include <memory>

#include "device/backend.hpp"

namespace foretrain::device::reference {

// Throws Error (unavailable) for models with a measured layer, which nobody can compute, and for mere lists
// of parameters.
std::unique_ptr<Program> make_program(const Model& model, const BuildOptions& options);

}  // namespace foretrain::device::reference

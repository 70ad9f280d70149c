// A model built for one batch on one worker. Everything is issued to the worker's compute stream.
#pragma once

#include <memory>

#include "device/backend.hpp"
#include "device/cpu/worker.hpp"

namespace foretrain::device::cpu {

// On the compute stream. Throws Error (unavailable) for what this backend does not run: precisions other than
// fp32, gradients in other types, layers that are given by their times.
std::unique_ptr<Program> make_program(CpuWorker& worker, const Model& model, const BuildOptions& options);

}  // namespace foretrain::device::cpu

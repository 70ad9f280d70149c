// A simulated step in the shape of a trace of PyTorch's profiler, so that tools made for those read it.
#pragma once

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"
#include "sim/output/timeline.hpp"

namespace foretrain {

// Of the first rank: launches as calls of the runtime, work as kernels on streams (7 compute, 20
// communication, 13 copies) with the correlation of their launches, collectives with NCCL's names, the step's
// mark, the optimizer's annotation, and the backward pass on a thread of its own.
void write_kineto_trace(const Timeline& timeline, const Result& result, const TextSink& sink);

}  // namespace foretrain

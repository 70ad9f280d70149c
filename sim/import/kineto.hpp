// A trace of PyTorch's profiler (Kineto) -> a workload.
#pragma once

#include "sim/import/importer.hpp"

namespace foretrain {

// Of one GPU's step: what was launched in what order, times on the device, the host's time for each,
// gradients as they become ready, the optimizer's part; of several GPUs also the collectives. Plain or gzip,
// streamed. A trace is slower than the job: times on the device are the trace's; the host's are scaled so
// that the step takes options.step, else what the profiler is estimated to cost is taken away, and the host
// is an interval from nothing to as traced. Damage is repaired or dropped and noted; with options.strict the
// first throws Error(input) with its byte offset.
Imported import_kineto(const ByteSource& bytes, const ImportOptions& options);

// The same of a whole text.
Imported import_kineto_text(std::string_view bytes, const ImportOptions& options);

}  // namespace foretrain

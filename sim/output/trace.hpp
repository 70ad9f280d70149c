// A timeline in the JSON trace format that ui.perfetto.dev and chrome://tracing open: a process a rank, with
// the tracks host, compute, communication and copy.
#pragma once

#include "sim/output/json_writer.hpp"
#include "sim/output/timeline.hpp"

namespace foretrain {

// An event a line, sorted by rank, track and start. Times are whole nanoseconds, the resolution of the
// viewers: both ends of a slice are rounded down, which keeps order, nesting and disjointness.
void write_trace(const Timeline& timeline, const TextSink& sink);

}  // namespace foretrain

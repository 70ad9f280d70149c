// A step as Perfetto's own trace format (protocol buffers): a process a rank with its host and its streams,
// counters of the links, arrows from launches to what they launch and from each rank's part of a collective
// to the next's.
#pragma once

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"
#include "sim/output/timeline.hpp"

namespace foretrain {

// Of a link class the counter is the rate of its payload, in bytes per second of all its links, while the
// first rank's collectives run: each has its share of Result::links' bytes by its own bytes.
void write_perfetto_trace(const Timeline& timeline, const Result& result, const TextSink& sink);

}  // namespace foretrain

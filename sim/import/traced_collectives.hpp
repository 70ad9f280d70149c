// The collectives of a trace as entries of a profile.
#pragma once

#include <string>
#include <vector>

#include "sim/import/importer.hpp"
#include "sim/import/trace_collection.hpp"
#include "sim/import/trace_reader.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// Of each kind, ranks, element and size the shortest: the others waited for a rank that was late. Those of
// more ranks than the trace's host has GPUs went over a network, which `options` names; else they are left
// out, and a note says so.
std::vector<CollectiveEntry> traced_collectives(const TraceCollection& trace, const TraceHead& head,
                                                const ImportOptions& options,
                                                std::vector<std::string>& notes);

}  // namespace foretrain

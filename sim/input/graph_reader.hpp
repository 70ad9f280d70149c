// An explicit graph in a topology file: vertices and links, each perhaps repeated by counters, with
// parameters.
#pragma once

#include <string>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

// `cluster` sets parameters and keys of `network`. Where an error was found the cluster has no worker.
Cluster read_graph(const Value& file, const std::string& name, const Value& cluster,
                   Diagnostics& diagnostics);

}  // namespace foretrain

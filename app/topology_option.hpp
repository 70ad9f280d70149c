// A topology named on the command line, with keys set on top: `--topology NAME|FILE --set KEY=VALUE`.
#pragma once

#include <string>
#include <vector>

#include "sim/input/catalog.hpp"
#include "sim/network/topology.hpp"

namespace foretrain::app {

// Required keys of a family that are not set are those of the shipped file of its name, with a note of which.
// Throws Error(input) with all that is wrong.
Cluster read_topology_option(const std::string& name, const std::vector<std::string>& settings,
                             const Catalog& catalog);

// A drawing of it: DOT, or by Graphviz's `dot` whatever the ending of `target` names (svg, png, pdf). Throws
// Error(unavailable) where that program is not installed.
void draw_topology(const Topology& topology, const std::string& target);

}  // namespace foretrain::app

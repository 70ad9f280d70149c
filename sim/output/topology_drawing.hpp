// A topology as a drawing in Graphviz's language DOT.
#pragma once

#include <string>

#include "sim/network/topology.hpp"

namespace foretrain {

// Nodes as boxes around what stands in them; a line for both directions of a link with its rate, one colour a
// kind of link; links that differ from their like (slow, shared, half duplex) are dashed.
std::string topology_dot(const Topology& topology);

}  // namespace foretrain

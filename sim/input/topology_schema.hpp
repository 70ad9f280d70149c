// The keys of a scenario's `cluster`, by family, and of the files in topologies/.
#pragma once

#include <string_view>
#include <vector>

#include "sim/input/schema.hpp"

namespace foretrain {

// network: { bandwidth, latency, transport, reported }
const Schema& network_schema();

// The families that are built in: nvlink-node, ethernet-nodes, one-node, star. Null for other names.
const Schema* find_family_schema(std::string_view family);
std::vector<const Schema*> family_schemas();

// A file with an explicit graph: parameters, vertices, links. (A file with `family` takes the family's keys.)
const Schema& graph_schema();
const Schema& graph_vertex_schema();
const Schema& graph_link_schema();

}  // namespace foretrain

// The keys of a scenario's `cluster`, by family, and of the files in topologies/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/input/schema.hpp"

namespace foretrain {

// network: { bandwidth, latency, transport, reported }
const Schema& network_schema();

// links: [{ name, bandwidth, ... }], slow_gpus: [{ from, to, factor }] and other_gpus: [{ from, to, profile
// }], which every cluster takes.
const Schema& link_change_schema();
const Schema& slow_gpus_schema();
const Schema& other_gpus_schema();
std::vector<KeySpec> change_keys();

// The families that are built in: nvlink-node, ethernet-nodes, one-node, star, leaf-spine, fat-tree,
// ... Null for other names.
const Schema* find_family_schema(std::string_view family);
std::vector<const Schema*> family_schemas();
std::string family_names();  // "nvlink-node, ethernet-nodes, ..."

// A file with an explicit graph: parameters, vertices, links. (A file with `family` takes the family's keys.)
const Schema& graph_schema();
const Schema& graph_vertex_schema();
const Schema& graph_link_schema();

}  // namespace foretrain

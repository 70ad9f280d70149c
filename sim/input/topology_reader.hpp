// A scenario's `cluster:` -> Cluster: a family of topologies/ with its keys, or a file with an explicit
// graph.
#pragma once

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

class Fields;   // sim/input/fields.hpp
class Catalog;  // sim/input/catalog.hpp: finds topologies/NAME.yaml

// `cluster` is the map under `cluster:`. Where an error was found the cluster has no worker. `other_gpus`
// gets the list of that name, checked, from the map or the file that it names.
Cluster read_cluster(const Value& cluster, const Catalog& catalog, Diagnostics& diagnostics,
                     Value* other_gpus = nullptr);

// A file of topologies/: a family with preset keys, or an explicit graph. `cluster` sets keys on top, and may
// be an empty map.
Cluster read_topology_file(const Value& file, const std::string& name, const Value& cluster,
                           Diagnostics& diagnostics);

// Applies the cluster's `links` and `slow_gpus`, checked before. Each name or rank that is not there is a
// finding at its item.
void read_changes(const Value& cluster, Topology& topology, Diagnostics& diagnostics);

// The map under `network:`, checked before.
NetworkDescription read_network(const Fields& fields);

}  // namespace foretrain

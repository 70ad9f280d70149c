// A scenario's `cluster:` -> Cluster: a family of topologies/ with its keys, or a file with an explicit
// graph.
#pragma once

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/network/topology.hpp"

namespace foretrain {

class Catalog;  // sim/input/catalog.hpp: finds topologies/NAME.yaml

// `cluster` is the map under `cluster:`. Where an error was found the cluster has no worker.
Cluster read_cluster(const Value& cluster, const Catalog& catalog, Diagnostics& diagnostics);

}  // namespace foretrain

#include "sim/input/topology_reader.hpp"

#include <algorithm>

#include "sim/base/spelling.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/fields.hpp"
#include "sim/input/graph_reader.hpp"
#include "sim/input/topology_schema.hpp"
#include "sim/network/families.hpp"

namespace foretrain {
namespace {

constexpr std::int64_t most_workers = 1 << 20;

int count(const Fields& fields, const char* key) {
  return static_cast<int>(std::clamp<std::int64_t>(fields.integer(key).value_or(1), 1, most_workers));
}

InsideDescription read_inside(const Fields& cluster) {
  const Fields fields = cluster.fields("inside");
  InsideDescription inside = fields.text("kind") == "pcie" ? pcie_of_generation(5) : nvlink_of_hopper();
  if (fields.has("bandwidth")) inside.bandwidth = fields.rate("bandwidth").value_or(inside.bandwidth);
  return inside;
}

Topology build(const std::string& family, const Fields& fields) {
  if (family == "nvlink-node") {
    NvlinkNode made{count(fields, "gpus_per_node"), count(fields, "nodes"), read_inside(fields), {}};
    if (fields.has("network")) made.network = read_network(fields.fields("network"));
    return make_topology(made);
  }
  if (family == "ethernet-nodes") {
    return make_topology(EthernetNodes{count(fields, "nodes"), count(fields, "gpus_per_node"),
                                       count(fields, "nics"), read_inside(fields),
                                       read_network(fields.fields("network"))});
  }
  if (family == "one-node") return make_topology(OneNode{count(fields, "workers")});
  Star star{count(fields, "hosts"),
            fields.rate("bandwidth").value_or(Rate()),
            fields.time("latency").value_or(Time()),
            {}};
  if (fields.has("slow")) {
    const Fields slow = fields.fields("slow");
    star.slow = Star::Slow{static_cast<int>(slow.integer("host").value_or(0)),
                           slow.rate("bandwidth").value_or(Rate())};
  }
  return make_topology(star);
}

// The keys of a file with those of the scenario's cluster on top; maps below are joined key by key.
Value joined(const Value& file, const Value& cluster) {
  Value all = cluster;
  for (const Member& member : file.members) {
    if (member.key == "family") continue;
    const auto own = std::find_if(all.members.begin(), all.members.end(),
                                  [&](const Member& each) { return each.key == member.key; });
    if (own == all.members.end()) {
      all.members.push_back(member);
    } else if (own->value.is_map() && member.value.is_map()) {
      own->value = joined(member.value, own->value);
    }
  }
  return all;
}

Cluster read_family(const std::string& family, const std::string& name, const Value& cluster,
                    Diagnostics& diagnostics) {
  const Schema& schema = *find_family_schema(family);
  const std::size_t before = diagnostics.error_count();
  check_map(cluster, schema, diagnostics);
  if (diagnostics.error_count() > before || !cluster.is_map()) return {};
  const Fields fields(&cluster, schema);
  const std::int64_t workers =
      fields.integer("nodes").value_or(1) * fields.integer("gpus_per_node").value_or(1);
  if (workers > most_workers) {
    diagnostics.error(fields.where("nodes"), "nodes x gpus_per_node is above 1,048,576 GPUs: take fewer");
    return {};
  }
  try {
    Cluster made{build(family, fields), name};
    made.topology.name = name;
    return made;
  } catch (const Error& error) {
    diagnostics.error(cluster.where(), error.what());
    return {};
  }
}

}  // namespace

NetworkDescription read_network(const Fields& fields) {
  NetworkDescription network;
  network.bandwidth = fields.rate("bandwidth").value_or(Rate());
  network.latency = fields.time("latency").value_or(Time());
  network.transport = fields.text("transport") == "rdma" ? Transport::rdma : Transport::tcp;
  network.reported = fields.rate("reported").value_or(network.bandwidth);
  return network;
}

Cluster read_cluster(const Value& cluster, const Catalog& catalog, Diagnostics& diagnostics) {
  if (!cluster.is_map()) {
    diagnostics.error(cluster.where(), "cluster: is " + std::string(name_of(cluster.kind)) +
                                           ": it takes a map of keys, as in 'cluster: { topology: "
                                           "nvlink-node, gpus_per_node: 8 }'");
    return {};
  }
  const Value* topology = cluster.find("topology");
  if (topology == nullptr || !topology->is_scalar() || topology->text.empty()) {
    diagnostics.error(
        topology ? topology->where() : cluster.where(),
        "cluster has no 'topology', which names a family (nvlink-node, ethernet-nodes, one-node, "
        "star) or a file of topologies/");
    return {};
  }
  const std::string& name = topology->text;
  if (find_family_schema(name) != nullptr) return read_family(name, name, cluster, diagnostics);
  const auto path = catalog.resolve(DataKind::topology, name, topology->where(), diagnostics);
  if (!path) return {};
  const auto file = read_document(*path, diagnostics);
  if (!file) return {};
  return read_topology_file(*file, data_name(*path), cluster, diagnostics);
}

Cluster read_topology_file(const Value& file, const std::string& name, const Value& cluster,
                           Diagnostics& diagnostics) {
  if (!file.is_map()) {
    diagnostics.error(file.where(),
                      "a topology is a map: of a family with its keys, or of vertices and links");
    return {};
  }
  const Value* family = file.find("family");
  if (family == nullptr) return read_graph(file, name, cluster, diagnostics);
  if (!family->is_scalar() || find_family_schema(family->text) == nullptr) {
    std::vector<std::string> names;
    for (const Schema* schema : family_schemas()) names.push_back(schema->name);
    diagnostics.error(family->where(), "family: '" + family->text +
                                           "' is unknown: allowed are nvlink-node, "
                                           "ethernet-nodes, one-node, star" +
                                           did_you_mean(family->text, names));
    return {};
  }
  return read_family(family->text, name, joined(file, cluster), diagnostics);
}

}  // namespace foretrain

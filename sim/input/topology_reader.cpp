#include "sim/input/topology_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "sim/base/spelling.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/fields.hpp"
#include "sim/input/file_kind.hpp"
#include "sim/input/graph_reader.hpp"
#include "sim/input/topology_schema.hpp"
#include "sim/network/changes.hpp"
#include "sim/network/families.hpp"

namespace foretrain {
namespace {

constexpr std::int64_t most_workers = 1 << 20;

int count(const Fields& fields, const char* key) {
  return static_cast<int>(std::clamp<std::int64_t>(fields.integer(key).value_or(1), 1, most_workers));
}

InsideDescription read_inside(const Fields& cluster) {
  const Fields fields = cluster.fields("inside");
  const auto kind = word_of(fields.text("kind"), {InsideLink::nvlink, InsideLink::nvlink_mesh,
                                                  InsideLink::nvlink_pairs, InsideLink::pcie});
  const auto number = [&fields](const char* key) {
    return static_cast<int>(fields.integer(key).value_or(0));
  };
  const int generation = number("pcie_generation");
  InsideDescription inside = kind == InsideLink::pcie          ? pcie_of_generation(generation)
                             : kind == InsideLink::nvlink_mesh ? nvlink_of_volta()
                                                               : nvlink_of_hopper();
  inside.kind = kind;
  inside.pcie_generation = generation;
  inside.pcie_switches = number("pcie_switches");
  inside.host_bridges = number("host_bridges");
  inside.bandwidth = fields.rate("bandwidth").value_or(inside.bandwidth);
  return inside;
}

EthernetNodes read_nodes(const Fields& fields) {
  return {count(fields, "nodes"), count(fields, "gpus_per_node"), count(fields, "nics"), read_inside(fields),
          read_network(fields.fields("network"))};
}

// A fabric's own keys; counts of nodes become counts of ports.
std::optional<FabricShape> read_shape(const std::string& family, const Fields& fields) {
  const auto number = [&fields](const char* key) {
    return static_cast<int>(fields.integer(key).value_or(0));
  };
  const auto ratio = [&fields](const char* key) { return fields.number(key).value_or(1); };
  const int nics = count(fields, "nics");
  if (family == "leaf-spine") {
    return LeafSpineShape{number("nodes_per_leaf") * nics, number("spines"), ratio("oversubscription")};
  }
  if (family == "fat-tree") {
    return FatTreeShape{number("nodes_per_leaf") * nics, number("leaves_per_pod"), ratio("oversubscription"),
                        ratio("core_oversubscription")};
  }
  if (family == "rail-optimized") {
    return RailShape{number("nodes_per_leaf"), true, number("spines"), ratio("oversubscription")};
  }
  if (family == "rail-only") return RailShape{number("nodes_per_leaf"), false, 0, 1};
  if (family == "dragonfly") {
    return DragonflyShape{number("nodes_per_router") * nics, number("routers_per_group"),
                          number("links_between_groups")};
  }
  if (family == "torus") {
    Torus torus;
    for (const char* side : {"x", "y", "z"}) torus.sides.push_back(number(side));
    return torus;
  }
  if (family == "ring") return Torus{{count(fields, "nodes")}};
  if (family == "wan") {
    return WanShape{number("sites"), fields.rate("wan_bandwidth").value_or(Rate()),
                    fields.time("wan_latency").value_or(Time())};
  }
  return std::nullopt;
}

Topology build(const std::string& family, const Fields& fields) {
  if (family == "nvlink-node") {
    NvlinkNode made{count(fields, "gpus_per_node"), count(fields, "nodes"), read_inside(fields), {}};
    if (fields.has("network")) made.network = read_network(fields.fields("network"));
    return make_topology(made);
  }
  if (family == "ethernet-nodes") return make_topology(read_nodes(fields));
  if (const auto shape = read_shape(family, fields))
    return make_topology(FabricNodes{read_nodes(fields), *shape});
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

// Each finding of an Error at the place that led to it.
void tell(const Error& error, const Value& at, Diagnostics& diagnostics) {
  for (const Diagnostic& finding : error.diagnostics()) diagnostics.error(at.where(), finding.text());
}

// What one item of a list does to a topology; an Error is a finding at its place.
template <typename Change>
void tell_error(const Value& item, Diagnostics& diagnostics, Change change) {
  try {
    change();
  } catch (const Error& error) {
    tell(error, item, diagnostics);
  }
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
    const std::int64_t nics = fields.integer("nics").value_or(1),
                       gpus = fields.integer("gpus_per_node").value_or(nics);
    if (nics > gpus)
      diagnostics.warning(
          fields.has("nics") ? fields.where("nics") : cluster.where(),
          fmt::format("nics: {} of them for {} GPUs of a node: a GPU has one here, and {} stay idle", nics,
                      gpus, nics - gpus));
    made.topology.name = name;
    read_changes(cluster, made.topology, diagnostics);
    if (diagnostics.error_count() > before) return {};
    return made;
  } catch (const Error& error) {
    tell(error, cluster, diagnostics);
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
  network.routes =
      word_of(fields.text("routes"), {RouteChoice::hash, RouteChoice::spread, RouteChoice::first});
  network.route_seed = static_cast<std::uint64_t>(fields.integer("route_seed").value_or(1));
  return network;
}

void read_changes(const Value& cluster, Topology& topology, Diagnostics& diagnostics) {
  const Value *links = cluster.find("links"), *slow = cluster.find("slow_gpus");
  if (links == nullptr && slow == nullptr) return;
  const std::size_t before = diagnostics.error_count();
  if (links != nullptr) {
    std::vector<LinkChange> changes;
    for (const Value& item : links->items) {
      const Fields fields(&item, link_change_schema());
      changes.push_back({fields.text("name").value_or(""), fields.rate("bandwidth"), fields.time("latency"),
                         fields.rate("background"), fields.boolean("failed").value_or(false),
                         fields.boolean("half_duplex").value_or(false)});
    }
    try {
      const std::vector<std::string> fitting = change_links(topology, changes);
      for (std::size_t i = 0; i < fitting.size(); ++i) {
        if (!fitting[i].empty())
          diagnostics.note(links->items[i].where(), fmt::format("'{}' fits {}", changes[i].name, fitting[i]));
      }
    } catch (const Error& of_one) {
      // Each by itself tells which of them are wrong, on links that are all there still.
      for (std::size_t i = 0; i < changes.size(); ++i) {
        changes[i].failed = false;
        tell_error(links->items[i], diagnostics, [&] { change_links(topology, std::span(&changes[i], 1)); });
      }
      if (diagnostics.error_count() == before) diagnostics.error(links->where(), of_one.what());
    }
  }
  if (slow != nullptr) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const Value& item : slow->items) {
      const Fields fields(&item, slow_gpus_schema());
      const auto from = fields.integer("from").value_or(0), to = fields.integer("to").value_or(from);
      for (const auto& [first, last] : ranges) {
        if (from > last || to < first) continue;
        diagnostics.warning(item.where(),
                            fmt::format("slow_gpus: rank {} is in more than one range: its factors multiply",
                                        std::max(from, first)));
        break;
      }
      ranges.emplace_back(from, to);
      tell_error(item, diagnostics, [&] {
        slow_workers(topology, static_cast<int>(from), static_cast<int>(to),
                     fields.number("factor").value_or(1));
      });
    }
  }
  if (diagnostics.error_count() == before) validate(topology);
}

Cluster read_cluster(const Value& cluster, const Catalog& catalog, Diagnostics& diagnostics,
                     Value* other_gpus) {
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
        "cluster has no 'topology', which names a family (" + family_names() + ") or a file of topologies/");
    return {};
  }
  const std::string& name = topology->text;
  const auto copy_other_gpus = [other_gpus](const Value& map) {
    const Value* list = map.find("other_gpus");
    if (other_gpus != nullptr && list != nullptr) *other_gpus = *list;
  };
  copy_other_gpus(cluster);
  if (find_family_schema(name) != nullptr) return read_family(name, name, cluster, diagnostics);
  const auto path = catalog.resolve(DataKind::topology, name, topology->where(), diagnostics);
  if (!path) return {};
  const auto file = read_document(*path, diagnostics);
  if (!file || refuse_other_kind(*file, FileKind::topology, diagnostics)) return {};
  if (cluster.find("other_gpus") == nullptr) copy_other_gpus(*file);
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
    diagnostics.error(family->where(), "family: '" + family->text + "' is unknown: allowed are " +
                                           family_names() + did_you_mean(family->text, names));
    return {};
  }
  return read_family(family->text, name, joined(file, cluster), diagnostics);
}

}  // namespace foretrain

#include "sim/input/topology_schema.hpp"

#include <utility>

namespace foretrain {
namespace {

constexpr double most_nodes = 262'144, most_per_node = 1'024;
constexpr double gigabit = 1e9 / 8;

KeySpec count(std::string name, std::string description, double at_most, std::string default_value = {}) {
  KeySpec made = key(std::move(name), Type::integer, std::move(description), std::move(default_value));
  made.at_least = 1;
  made.at_most = at_most;
  return made;
}

KeySpec rate(std::string name, std::string description, double usual_low, double usual_high,
             std::string example) {
  KeySpec made = key(std::move(name), Type::rate, std::move(description), {}, std::move(example));
  made.above = 0;
  made.usual_low = usual_low;
  made.usual_high = usual_high;
  return made;
}

KeySpec network_rate(std::string name, std::string description) {
  return rate(std::move(name), std::move(description), 0.1 * gigabit, 3200 * gigabit, "25 Gbit/s");
}

KeySpec latency(std::string name, std::string description, std::string default_value) {
  KeySpec made = key(std::move(name), Type::time, std::move(description), std::move(default_value), "30 us");
  made.at_least = 0;
  made.usual_high = 1;
  return made;
}

KeySpec words(KeySpec made, std::vector<std::string> allowed) {
  made.allowed = std::move(allowed);
  return made;
}

Schema make_network() {
  Schema made{"network", "the network between nodes: equal NICs and links", {}, {}};
  made.keys = {
      required(network_rate("bandwidth", "line rate of one NIC in each direction")),
      latency("latency", "of one link; from node to node over a switch a message crosses two", "10 us"),
      words(key("transport", Type::text, "what carries the bytes: decides the share that is payload", "tcp"),
            {"tcp", "rdma"}),
      network_rate("reported", "what the NIC tells NCCL, on which its choice rests; else the bandwidth"),
  };
  return made;
}

const Schema& inside_schema() {
  static const Schema schema = [] {
    Schema made{"inside", "what joins the GPUs of a node", {}, {}};
    made.keys = {
        words(key("kind", Type::text, "NVLink around a switch, or PCIe", "nvlink"), {"nvlink", "pcie"}),
        rate("bandwidth", "of one GPU in each direction; else NVLink 4 (450 GB/s) or PCIe 5 (63 GB/s)", 1e9,
             10e12, "450 GB/s"),
    };
    return made;
  }();
  return schema;
}

const Schema& slow_schema() {
  static const Schema schema = [] {
    Schema made{"slow", "one host whose link is slower", {}, {}};
    KeySpec host = required(key("host", Type::integer, "which, from 0"));
    host.at_least = 0;
    made.keys = {host, required(network_rate("bandwidth", "line rate of its link"))};
    return made;
  }();
  return schema;
}

KeySpec map_of(std::string name, std::string description, const Schema& keys) {
  KeySpec made = key(std::move(name), Type::map, std::move(description));
  made.keys = &keys;
  return made;
}

std::vector<Schema> make_families() {
  const KeySpec topology = key("topology", Type::text, "the family, or a file of topologies/");
  const KeySpec gpus = required(count("gpus_per_node", "GPUs of a node", most_per_node));
  const KeySpec inside = map_of("inside", "what joins the GPUs of a node", inside_schema());
  const KeySpec network = map_of("network", "the network between nodes", network_schema());

  Schema nvlink{"nvlink-node", "GPUs around an NVSwitch in one node, or in several over a network", {}, {}};
  nvlink.keys = {topology, gpus, count("nodes", "nodes; more than one need a network", most_nodes, "1"),
                 inside, network};

  Schema ethernet{"ethernet-nodes", "nodes of GPUs with one or several NICs each around one switch", {}, {}};
  ethernet.keys = {topology, required(count("nodes", "nodes", most_nodes)),
                   gpus,     count("nics", "NICs of a node, each with its share of the GPUs", 64, "1"),
                   inside,   required(network)};

  Schema one{"one-node", "CPU workers that share the memory of one machine", {}, {}};
  one.keys = {topology, required(count("workers", "worker processes", most_per_node))};

  Schema star{"star", "hosts of one worker around a switch; links carry their full line rate", {}, {}};
  star.keys = {topology, required(count("hosts", "hosts", most_nodes)),
               required(network_rate("bandwidth", "line rate of a host's link in each direction")),
               latency("latency", "of one link; from host to host a message crosses two", "0 us"),
               map_of("slow", "one host whose link is slower", slow_schema())};
  return {std::move(nvlink), std::move(ethernet), std::move(one), std::move(star)};
}

const std::vector<Schema>& families() {
  static const std::vector<Schema> all = make_families();
  return all;
}

KeySpec loop() {
  return key("for", Type::map, "counters and how often each counts from 0, as expressions of parameters", {},
             "{ i: nodes }");
}

}  // namespace

const Schema& network_schema() {
  static const Schema schema = make_network();
  return schema;
}

const Schema* find_family_schema(std::string_view family) {
  for (const Schema& schema : families()) {
    if (schema.name == family) return &schema;
  }
  return nullptr;
}

std::vector<const Schema*> family_schemas() {
  std::vector<const Schema*> all;
  for (const Schema& schema : families()) all.push_back(&schema);
  return all;
}

const Schema& graph_vertex_schema() {
  static const Schema schema = [] {
    Schema made{"a vertex", "a GPU, CPU worker, NIC or switch; with 'for', one for each count", {}, {}};
    made.keys = {
        required(key("name", Type::text, "its name; '{i}' is replaced by an expression of counters", {},
                     "\"node{i}.gpu{j}\"")),
        required(words(key("kind", Type::text, "what it is; GPUs and CPUs are workers"),
                       {"gpu", "cpu", "nic", "pcie_switch", "host_bridge", "nvswitch", "network_switch"})),
        key("node", Type::text | Type::integer, "the node it stands in, an expression; without: in none"),
        loop(),
    };
    return made;
  }();
  return schema;
}

const Schema& graph_link_schema() {
  static const Schema schema = [] {
    Schema made{"a link", "both directions between two vertices; with 'for', one for each count", {}, {}};
    KeySpec efficiency =
        key("efficiency", Type::number, "payload over line rate; else by kind and transport");
    efficiency.above = 0;
    efficiency.at_most = 1;
    made.keys = {
        required(key("from", Type::text, "name of a vertex", {}, "\"node{i}.nic\"")),
        required(key("to", Type::text, "name of a vertex")),
        words(key("kind", Type::text, "what it is made of", "network"),
              {"nvlink", "pcie", "network", "memory"}),
        key("class", Type::text, "equal links share a class, by which results name them; else the kind"),
        rate("bandwidth", "line rate of each direction; a network link's default is that of 'network'", 1e6,
             100e12, "25 Gbit/s"),
        latency("latency", "of one direction; a network link's default is that of 'network'", {}),
        efficiency,
        loop(),
    };
    return made;
  }();
  return schema;
}

const Schema& graph_schema() {
  static const Schema schema = [] {
    Schema made{"a topology", "an explicit graph of vertices and links, with parameters", {}, {}};
    KeySpec vertices = required(key("vertices", Type::list, "what the links join"));
    vertices.items = &graph_vertex_schema();
    KeySpec links = required(key("links", Type::list, "what joins the vertices"));
    links.items = &graph_link_schema();
    made.keys = {
        key("parameters", Type::map, "whole numbers with their defaults; a scenario's cluster may set them"),
        key("nics", Type::text | Type::integer, "NICs of a node, an expression: NCCL makes a ring for each",
            "1"),
        map_of("network", "default of the network links; a scenario's cluster may set its keys",
               network_schema()),
        vertices,
        links,
    };
    return made;
  }();
  return schema;
}

}  // namespace foretrain

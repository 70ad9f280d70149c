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
      words(key("routes", Type::text, "how one of several equally short ways is chosen", "hash"),
            {"hash", "spread", "first"}),
      beside("routes", {"hash"}, count("route_seed", "of the hash", 1e9, "1")),
  };
  return made;
}

const Schema& inside_schema() {
  static const Schema schema = [] {
    Schema made{"inside", "what joins the GPUs of a node", {}, {}};
    KeySpec generation =
        count("pcie_generation", "of 16 lanes: 15.75 GB/s at 3, twice that a generation", 7, "5");
    generation.at_least = 3;
    made.keys = {
        words(key("kind", Type::text, "NVLink around a switch, as in a DGX-1, in pairs; or PCIe", "nvlink"),
              {"nvlink", "nvlink-mesh", "nvlink-pairs", "pcie"}),
        rate("bandwidth",
             "of one GPU in each direction; else NVLink 4 (450 GB/s), of a mesh NVLink 2 (150 GB/s), or PCIe",
             1e9, 10e12, "450 GB/s"),
        generation,
        count("pcie_switches", "each with its share of GPUs and NICs; without, a host bridge for each NIC",
              64),
        count("host_bridges", "sockets that hold the PCIe switches", 16, "1"),
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

// The families of nodes whose NICs a fabric of switches joins.
std::vector<Schema> make_fabrics(const std::vector<KeySpec>& nodes) {
  auto made = [&nodes](std::string name, std::string description, std::vector<KeySpec> own) {
    Schema schema{std::move(name), std::move(description), nodes, {}};
    for (KeySpec& each : own) schema.keys.push_back(std::move(each));
    return schema;
  };
  auto over = [](std::string name, std::string description) {
    KeySpec ratio = key(std::move(name), Type::number, std::move(description), "1");
    ratio.above = 0;
    ratio.usual_low = 0.5;
    ratio.usual_high = 16;
    return ratio;
  };
  const KeySpec oversubscription =
      over("oversubscription", "rate of a leaf's ports over that of its uplinks");
  const KeySpec spines =
      count("spines", "spine switches; else as many as make an uplink as fast as a NIC", 4096);
  return {
      made("leaf-spine", "nodes around leaf switches, each joined to every spine",
           {count("nodes_per_leaf", "nodes of a leaf switch", most_nodes, "16"), spines, oversubscription}),
      made("fat-tree", "three levels of switches: leaves in pods, aggregation, core",
           {count("nodes_per_leaf", "nodes of a leaf; else of the smallest radix that holds all", 4096),
            count("leaves_per_pod", "leaves of a pod; else of the smallest radix that holds all", 4096),
            oversubscription,
            over("core_oversubscription", "rate of a pod's leaf uplinks over that of its core uplinks")}),
      made("rail-optimized", "NIC r of each node on a leaf of rail r; spines join the rails",
           {count("nodes_per_leaf", "nodes of a leaf; else all nodes share one a rail", most_nodes), spines,
            oversubscription}),
      made("rail-only", "NIC r of each node on a switch of rail r; rails meet in the nodes alone, by NVLink",
           {count("nodes_per_leaf", "nodes of a leaf; else all nodes share one a rail", most_nodes)}),
      made("dragonfly", "groups of routers that are joined each to each; links between all groups",
           {count("nodes_per_router", "nodes of a router", 1024, "4"),
            count("routers_per_group", "routers of a group", 1024, "8"),
            count("links_between_groups", "links between two groups", 1024, "1")}),
      made("torus", "a switch a node in a grid of one to three sides that closes",
           {required(count("x", "nodes along the first side", most_nodes)),
            count("y", "nodes along the second side; x times y times z is 'nodes'", most_nodes, "1"),
            count("z", "nodes along the third side", most_nodes, "1")}),
      made("ring", "a switch a node, joined in a circle", {}),
      made(
          "wan", "equal sites of nodes, a switch each, joined by links of the wide area",
          {count("sites", "sites, each with its share of the nodes; no more than there are nodes", 1024, "2"),
           required(network_rate("wan_bandwidth", "line rate of the link between two sites")),
           latency("wan_latency", "of the link between two sites, one way", "5 ms")}),
  };
}

std::vector<Schema> make_families() {
  const KeySpec topology = key("topology", Type::text, "the family, or a file of topologies/");
  KeySpec gpus = required(count("gpus_per_node", "GPUs of a node", most_per_node));
  gpus.usual_high = 72;  // the largest NVLink domain that is sold
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
  std::vector<Schema> all = {std::move(nvlink), std::move(ethernet), std::move(one), std::move(star)};
  for (Schema& fabric : make_fabrics(all[1].keys)) all.push_back(std::move(fabric));
  for (Schema& each : all) {
    for (KeySpec& change : change_keys()) each.keys.push_back(std::move(change));
  }
  return all;
}

const std::vector<Schema>& families() {
  static const std::vector<Schema> all = make_families();
  return all;
}

KeySpec first_rank() {
  KeySpec spec = required(key("from", Type::integer, "the first rank, from 0"));
  spec.at_least = 0;
  return spec;
}

KeySpec last_rank() {
  KeySpec spec = key("to", Type::integer, "the last rank; else the first alone");
  spec.at_least = 0;
  return spec;
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

const Schema& link_change_schema() {
  static const Schema schema = [] {
    Schema made{"a link change", "a link that differs from its like, by name", {}, {}};
    made.keys = {
        required(key("name", Type::text,
                     "a link ('node3.nic0>switch', one direction), a vertex (its network links, else all), "
                     "or a class; '*' stands for any letters: of links where the name has '>', else of "
                     "vertices, or of classes where it fits none",
                     {}, "\"node3.nic0>*\"")),
        rate("bandwidth", "line rate of a direction from now on", 1e6, 100e12, "1 Gbit/s"),
        latency("latency", "of one direction", {}),
        rate("background", "payload of other traffic, which leaves the rest", 1e3, 100e12, "2 Gbit/s"),
        key("failed", Type::boolean, "the link is gone", "false"),
        key("half_duplex", Type::boolean, "both directions share the rate", "false"),
    };
    return made;
  }();
  return schema;
}

const Schema& slow_gpus_schema() {
  static const Schema schema = [] {
    Schema made{
        "slow GPUs", "workers whose kernels take longer than the profile's: stragglers, older GPUs", {}, {}};
    KeySpec factor = required(key("factor", Type::number, "time of a kernel over the profile's", {}, "1.3"));
    factor.above = 0;
    factor.at_most = 1e6;
    factor.usual_low = 0.2;
    factor.usual_high = 20;
    made.keys = {first_rank(), last_rank(), factor};
    return made;
  }();
  return schema;
}

const Schema& other_gpus_schema() {
  static const Schema schema{
      "other GPUs",
      "workers on GPUs of another type, whose kernels and launches take as long as their own profile says",
      {first_rank(), last_rank(),
       required(key("profile", Type::text | Type::list, "of their type, as a scenario's", {}, "h100"))},
      {}};
  return schema;
}

std::vector<KeySpec> change_keys() {
  KeySpec links =
      key("links", Type::list, "links that differ from their like: slow, shared with others, failed");
  links.items = &link_change_schema();
  KeySpec slow =
      key("slow_gpus", Type::list, "workers that compute slower: stragglers, nodes of slower GPUs");
  slow.items = &slow_gpus_schema();
  KeySpec other = key("other_gpus", Type::list, "workers on GPUs of another type, each by its own profile");
  other.items = &other_gpus_schema();
  return {links, slow, other};
}

std::string family_names() {
  std::string all;
  for (const Schema& schema : families()) all += (all.empty() ? "" : ", ") + schema.name;
  return all;
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
        key("half_duplex", Type::boolean, "both directions share the rate", "false"),
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

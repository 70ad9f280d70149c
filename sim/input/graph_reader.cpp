#include "sim/input/graph_reader.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "sim/base/spelling.hpp"
#include "sim/input/fields.hpp"
#include "sim/input/scalars.hpp"
#include "sim/input/topology_reader.hpp"
#include "sim/input/topology_schema.hpp"
#include "sim/network/families.hpp"
#include "sim/training/expression.hpp"

namespace foretrain {
namespace {

using Names = std::map<std::string, std::int64_t>;

// A file of a few lines must not fill the memory.
constexpr std::int64_t most_parts = 2'000'000;

class GraphReader {
 public:
  GraphReader(const Value& file, const Value& cluster, Diagnostics& diagnostics)
      : file_(file), cluster_(cluster), diagnostics_(diagnostics) {}

  Topology read(const std::string& name) {
    topology_.name = name;
    read_parameters();
    read_network_keys();
    const Fields fields(&file_, graph_schema());
    if (!diagnostics_.ok()) return {};
    for (const Value& item : file_.find("vertices")->items) read_vertices(item);
    for (const Value& item : file_.find("links")->items) read_links(item);
    topology_.nics_per_node = 1;
    if (const Value* nics = fields.find("nics")) {
      topology_.nics_per_node = static_cast<int>(evaluated(nics->text, nics->where(), parameters_));
    }
    for (const KeySpec& change : change_keys()) {
      if (const Value* list = cluster_.find(change.name)) check_value(*list, change, diagnostics_);
    }
    find_workers();
    return std::move(topology_);
  }

 private:
  void read_parameters() {
    std::vector<std::string> known = {"topology", "network", "links", "slow_gpus", "other_gpus"};
    if (const Value* parameters = file_.find("parameters")) {
      for (const Member& member : parameters->members) {
        known.push_back(member.key);
        if (!is_identifier(member.key)) {
          diagnostics_.error(member.where,
                             "parameter '" + member.key + "': a name is letters, digits and '_'");
        }
        parameters_[member.key] = whole_number(member.key, member.value);
      }
    }
    for (const Member& member : cluster_.members) {
      if (std::find(known.begin(), known.begin() + 4, member.key) != known.begin() + 4) continue;
      if (!parameters_.contains(member.key)) {
        std::string all;
        for (const std::string& each : known) all += (all.empty() ? "" : ", ") + each;
        diagnostics_.error(member.where, "unknown key '" + member.key + "' in cluster: topology '" +
                                             topology_.name + "' takes " + all +
                                             did_you_mean(member.key, known));
        continue;
      }
      parameters_[member.key] = whole_number(member.key, member.value);
    }
  }

  std::int64_t whole_number(const std::string& key, const Value& value) {
    const auto parsed = parse_integer(value.text);
    const auto* number = std::get_if<std::int64_t>(&parsed);
    if (value.is_scalar() && number != nullptr && *number >= 0) return *number;
    diagnostics_.error(value.where(), key + ": a topology's parameter is a whole number, 0 or more");
    return 1;
  }

  void read_network_keys() {
    Value keys;
    if (const Value* own = file_.find("network"); own != nullptr && own->is_map()) keys = *own;
    if (const Value* network = cluster_.find("network")) {
      if (!network->is_map()) {
        diagnostics_.error(network->where(), "network: it takes a map of keys");
        return;
      }
      keys.kind = ValueKind::map;
      if (!keys.file) {
        keys.file = network->file;
        keys.line = network->line;
        keys.column = network->column;
      }
      for (const Member& member : network->members) {
        std::erase_if(keys.members, [&](const Member& each) { return each.key == member.key; });
        keys.members.push_back(member);
      }
    }
    if (!keys.is_map()) return;
    check_map(keys, network_schema(), diagnostics_);
    if (diagnostics_.ok()) topology_.network = read_network(Fields(&keys, network_schema()));
  }

  std::int64_t evaluated(const std::string& text, const SourceLocation& where, const Names& names) {
    const auto result = evaluate(text, names);
    if (const auto* value = std::get_if<std::int64_t>(&result)) return *value;
    diagnostics_.error(where, "'" + text + "': " + std::get<ExpressionError>(result).what);
    return 0;
  }

  // "node{i}.gpu{j}" with each expression in braces replaced by its value.
  std::string expanded(const std::string& text, const SourceLocation& where, const Names& names) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] != '{') {
        out += text[at++];
        continue;
      }
      const std::size_t end = text.find('}', at);
      if (end == std::string::npos) {
        diagnostics_.error(where, "'" + text + "': a '{' is not closed");
        return out;
      }
      out += std::to_string(evaluated(text.substr(at + 1, end - at - 1), where, names));
      at = end + 1;
    }
    return out;
  }

  // Calls `body` for each combination of the counters of `for`, the last one fastest.
  void repeat(const Value& item, const std::function<void(const Names&)>& body) {
    Names names = parameters_;
    const Value* loop = item.find("for");
    const std::vector<Member> none;
    const std::vector<Member>& counters = loop != nullptr && loop->is_map() ? loop->members : none;
    std::function<void(std::size_t)> descend = [&](std::size_t level) {
      if (level == counters.size()) {
        if (++parts_ <= most_parts && diagnostics_.ok()) body(names);
        if (parts_ == most_parts + 1)
          diagnostics_.error(item.where(), "the topology has more than 2 million parts");
        return;
      }
      const Member& counter = counters[level];
      // A counter may depend on those before it.
      const std::int64_t end = evaluated(counter.value.text, counter.value.where(), names);
      for (std::int64_t i = 0; i < end && diagnostics_.ok(); ++i) {
        names[counter.key] = i;
        descend(level + 1);
      }
      names.erase(counter.key);
    };
    for (const Member& counter : counters) {
      if (!is_identifier(counter.key) || parameters_.contains(counter.key)) {
        diagnostics_.error(counter.where, "for: '" + counter.key + "' is no new name of letters and digits");
      }
      if (!counter.value.is_scalar())
        diagnostics_.error(counter.value.where(), "for: a count is an expression");
    }
    if (counters.size() > 8) diagnostics_.error(item.where(), "for: at most 8 counters");
    if (diagnostics_.ok()) descend(0);
  }

  void read_vertices(const Value& item) {
    const Fields fields(&item, graph_vertex_schema());
    const std::string kind_name = *fields.text("kind");
    VertexKind kind = VertexKind::gpu;
    for (VertexKind each : {VertexKind::gpu, VertexKind::cpu, VertexKind::nic, VertexKind::pcie_switch,
                            VertexKind::host_bridge, VertexKind::nvswitch, VertexKind::network_switch}) {
      if (kind_name == name_of(each)) kind = each;
    }
    const std::string name = *fields.text("name");
    const Value* node = fields.find("node");
    const bool is_worker = kind == VertexKind::gpu || kind == VertexKind::cpu;
    if (is_worker && node == nullptr) {
      diagnostics_.error(item.where(),
                         "vertex '" + name + "' is a worker and has no 'node', which it stands in");
      return;
    }
    repeat(item, [&](const Names& names) {
      const std::string each = expanded(name, fields.where("name"), names);
      const auto number = node ? evaluated(node->text, node->where(), names) : std::int64_t{-1};
      const int index = add_vertex(topology_, each, kind, static_cast<int>(number));
      if (!by_name_.emplace(each, index).second) {
        diagnostics_.error(fields.where("name"), "two vertices have the name '" + each + "'");
      }
    });
  }

  int vertex(const std::string& name, const SourceLocation& where) {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) return found->second;
    std::vector<std::string> names;
    for (const Vertex& each : topology_.vertices) {
      if (names.size() < 10'000) names.push_back(each.name);
    }
    diagnostics_.error(where, "there is no vertex '" + name + "'" + did_you_mean(name, names));
    return -1;
  }

  void read_links(const Value& item) {
    const Fields fields(&item, graph_link_schema());
    const std::string kind_name = fields.text("kind").value_or("network");
    LinkProperties properties;
    for (LinkKind each : {LinkKind::nvlink, LinkKind::pcie, LinkKind::network, LinkKind::memory}) {
      if (kind_name == name_of(each)) properties.kind = each;
    }
    const bool is_network = properties.kind == LinkKind::network;
    properties.link_class = fields.text("class").value_or(kind_name);
    properties.rate = fields.rate("bandwidth").value_or(is_network ? topology_.network.bandwidth : Rate());
    properties.latency = fields.time("latency").value_or(is_network ? topology_.network.latency : Time());
    double usual = 1;
    if (is_network) usual = transport_efficiency(topology_.network.transport);
    if (properties.kind == LinkKind::nvlink) usual = nvlink_of_hopper().efficiency;
    if (properties.kind == LinkKind::pcie) usual = pcie_of_generation(5).efficiency;
    properties.half_duplex = fields.boolean("half_duplex").value_or(false);
    properties.efficiency = fields.number("efficiency").value_or(usual);
    if (!(properties.rate.bytes_per_second() > 0)) {
      diagnostics_.error(item.where(),
                         "the link has no 'bandwidth', and there is no 'network' to take it from");
      return;
    }
    repeat(item, [&](const Names& names) {
      const int from =
          vertex(expanded(*fields.text("from"), fields.where("from"), names), fields.where("from"));
      const int to = vertex(expanded(*fields.text("to"), fields.where("to"), names), fields.where("to"));
      if (from >= 0 && to >= 0) add_link_pair(topology_, from, to, properties);
    });
  }

  // Workers fill nodes in order; nodes are numbered densely in the order of their numbers.
  void find_workers() {
    std::map<int, std::vector<int>> by_node;
    for (std::size_t v = 0; v < topology_.vertices.size(); ++v) {
      const Vertex& each = topology_.vertices[v];
      if (each.kind == VertexKind::gpu || each.kind == VertexKind::cpu) {
        by_node[each.node].push_back(static_cast<int>(v));
      }
    }
    topology_.nodes = static_cast<int>(by_node.size());
    topology_.gpus_per_node = 0;
    for (const auto& [node, workers] : by_node) {
      topology_.workers.insert(topology_.workers.end(), workers.begin(), workers.end());
      topology_.gpus_per_node = std::max(topology_.gpus_per_node, static_cast<int>(workers.size()));
    }
    if (topology_.nodes < 2) topology_.nics_per_node = 0;
    if (topology_.nodes > 1 && !(topology_.network.bandwidth.bytes_per_second() > 0)) {
      for (const Link& link : topology_.links) {  // the first network link stands for the network
        if (link.kind != LinkKind::network) continue;
        topology_.network = {link.rate, link.latency, Transport::tcp, link.rate};
        break;
      }
    }
  }

  const Value& file_;
  const Value& cluster_;
  Diagnostics& diagnostics_;
  Topology topology_;
  Names parameters_;
  std::unordered_map<std::string, int> by_name_;
  std::int64_t parts_ = 0;
};

}  // namespace

Cluster read_graph(const Value& file, const std::string& name, const Value& cluster,
                   Diagnostics& diagnostics) {
  Diagnostics own;
  check_map(file, graph_schema(), own);
  Cluster made;
  if (own.ok()) {
    try {
      made = {GraphReader(file, cluster, own).read(name), name};
      if (own.ok()) {
        validate_with_names(made.topology);
        read_changes(cluster, made.topology, own);
      }
    } catch (const Error& error) {
      own.error(file.where(), error.what());
    }
  }
  const bool failed = !own.ok();
  diagnostics.merge(own);
  return failed ? Cluster{} : made;
}

}  // namespace foretrain

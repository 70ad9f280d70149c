#include "sim/network/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/spelling.hpp"

namespace foretrain {
namespace {

constexpr const char* changed_class = "changed ";
constexpr std::size_t few_changes = 8;  // for which looking at all links is quicker than an index

bool is_pattern(const std::string& name) {
  return name.find('*') != std::string::npos;
}

// Of vertices with links of the network (NICs) only those: their slots stay.
std::vector<std::size_t> links_at(const Topology& topology, const std::string& name) {
  std::vector<char> is_meant(topology.vertices.size());
  for (std::size_t v = 0; v < topology.vertices.size(); ++v)
    is_meant[v] = fits(name, topology.vertices[v].name) ? 1 : 0;
  std::vector<std::size_t> all, network;
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    const Link& link = topology.links[l];
    if (!is_meant[static_cast<std::size_t>(link.from)] && !is_meant[static_cast<std::size_t>(link.to)])
      continue;
    all.push_back(l);
    if (link.kind == LinkKind::network) network.push_back(l);
  }
  return network.empty() ? all : network;
}

std::vector<std::size_t> links_of(const Topology& topology, const std::string& name) {
  std::vector<std::size_t> found;
  auto find = [&](auto name_of_link) {
    for (std::size_t l = 0; l < topology.links.size(); ++l) {
      if (fits(name, name_of_link(topology.links[l]))) found.push_back(l);
    }
  };
  auto of_link = [&](const Link& link) { return name_of(topology, link); };
  auto of_class = [&](const Link& link) -> const std::string& { return class_of(topology, link); };
  if (name.find('>') != std::string::npos) {
    find(of_link);
  } else if (is_pattern(name)) {
    found = links_at(topology, name);
    if (found.empty()) find(of_class);
  } else {
    find(of_class);
    if (found.empty()) found = links_at(topology, name);
  }
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const Link& link : topology.links) {
    if (names.size() < 20'000) names.push_back(name_of(topology, link));
  }
  for (const Vertex& vertex : topology.vertices) {
    if (names.size() < 20'000) names.push_back(vertex.name);
  }
  if (is_pattern(name)) {
    throw Error(ErrorKind::input,
                fmt::format("no {} of topology '{}' fits '{}'; there are '{}' and '{}', for instance",
                            name.find('>') != std::string::npos ? "link" : "vertex or class", topology.name,
                            name, topology.vertices.front().name, names.front()));
  }
  throw Error(ErrorKind::input, fmt::format("no link or vertex of topology '{}' is called '{}'{}",
                                            topology.name, name, did_you_mean(name, names)));
}

// "4 directions of links: node0.nic0>switch, ..."
std::string listed(const Topology& topology, const std::vector<std::size_t>& links) {
  constexpr std::size_t most = 4;
  std::string text = fmt::format("{} direction{} of links: ", links.size(), links.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(most, links.size()); ++i)
    text += (i > 0 ? ", " : "") + name_of(topology, topology.links[links[i]]);
  return links.size() > most ? text + ", ..." : text;
}

// Links by plain names, so that thousands of them are found at once.
class LinkNames {
 public:
  explicit LinkNames(const Topology& topology) : topology_(topology), at_vertex_(topology.vertices.size()) {
    for (std::size_t v = 0; v < topology.vertices.size(); ++v)
      vertices_.emplace(topology.vertices[v].name, v);
    for (std::size_t l = 0; l < topology.links.size(); ++l) {
      const Link& link = topology.links[l];
      others_.insert(name_of(topology, link));
      at_vertex_[static_cast<std::size_t>(link.from)].push_back(l);
      at_vertex_[static_cast<std::size_t>(link.to)].push_back(l);
    }
    for (std::size_t c = 0; c < topology.link_classes.size(); ++c) {
      others_.insert(topology.link_classes.name(static_cast<int>(c)));
    }
  }

  // As links_of().
  std::vector<std::size_t> find(const std::string& name) const {
    const auto vertex = vertices_.find(name);
    const bool is_plain = !is_pattern(name) && !name.starts_with(changed_class);
    if (!is_plain || vertex == vertices_.end() || others_.contains(name)) return links_of(topology_, name);
    const std::vector<std::size_t>& all = at_vertex_[vertex->second];
    std::vector<std::size_t> network;
    for (const std::size_t l : all) {
      if (topology_.links[l].kind == LinkKind::network) network.push_back(l);
    }
    return network.empty() ? all : network;
  }

 private:
  const Topology& topology_;
  std::unordered_map<std::string, std::size_t> vertices_;
  std::unordered_set<std::string> others_;  // names of links and classes
  std::vector<std::vector<std::size_t>> at_vertex_;
};

void erase_links(Topology& topology, const std::vector<char>& is_gone) {
  if (std::find(is_gone.begin(), is_gone.end(), 1) == is_gone.end()) return;
  std::vector<int> place(topology.links.size(), -1);
  std::vector<Link> kept;
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    if (is_gone[l]) continue;
    place[l] = static_cast<int>(kept.size());
    kept.push_back(topology.links[l]);
  }
  for (Link& link : kept) {
    if (link.reverse >= 0) link.reverse = place[static_cast<std::size_t>(link.reverse)];
  }
  topology.links = std::move(kept);
}

}  // namespace

bool fits(std::string_view pattern, std::string_view name) {
  // Greedy with one point of return: the last '*' and how much it has taken.
  std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> change_links(Topology& topology, std::span<const LinkChange> changes) {
  std::vector<std::string> fitting;
  std::vector<char> is_gone(topology.links.size(), 0);
  std::optional<LinkNames> names;
  if (changes.size() > few_changes) names.emplace(topology);
  for (const LinkChange& change : changes) {
    const std::vector<std::size_t> links = names ? names->find(change.name) : links_of(topology, change.name);
    fitting.push_back(is_pattern(change.name) ? listed(topology, links) : std::string());
    for (const std::size_t l : links) {
      Link& link = topology.links[l];
      if (change.failed) {
        is_gone[l] = 1;
        continue;
      }
      if (change.bandwidth) link.rate = *change.bandwidth;
      if (change.latency) link.latency = *change.latency;
      if (change.background) link.background = *change.background;
      if (change.half_duplex) {
        link.half_duplex = true;
        if (link.reverse >= 0) topology.links[static_cast<std::size_t>(link.reverse)].half_duplex = true;
      }
      // It is no longer like its class, and reported by itself.
      const std::string& own_class = class_of(topology, link);
      if ((change.bandwidth || change.background) && !own_class.starts_with(changed_class)) {
        link.link_class = topology.link_classes.index(changed_class + own_class);
      }
    }
  }
  erase_links(topology, is_gone);
  return fitting;
}

void slow_workers(Topology& topology, int first, int last, double factor) {
  const auto count = static_cast<int>(topology.workers.size());
  if (first < 0 || last < first || last >= count) {
    throw Error(ErrorKind::input,
                fmt::format("slow_gpus: ranks {} to {} are not within the {} workers of the cluster", first,
                            last, count));
  }
  topology.compute_factors.resize(topology.workers.size(), 1.0);
  for (int rank = first; rank <= last; ++rank)
    topology.compute_factors[static_cast<std::size_t>(rank)] *= factor;
}

void keep_workers(Topology& topology, const std::vector<bool>& kept) {
  std::vector<int> workers;
  std::vector<double> factors;
  std::map<int, int> by_node;
  for (std::size_t rank = 0; rank < topology.workers.size(); ++rank) {
    if (!kept[rank]) continue;
    workers.push_back(topology.workers[rank]);
    if (!topology.compute_factors.empty()) factors.push_back(topology.compute_factors[rank]);
    ++by_node[topology.vertices[static_cast<std::size_t>(topology.workers[rank])].node];
  }
  topology.workers = std::move(workers);
  topology.compute_factors = std::move(factors);
  topology.nodes = static_cast<int>(by_node.size());
  topology.gpus_per_node = 0;
  for (const auto& [node, count] : by_node) topology.gpus_per_node = std::max(topology.gpus_per_node, count);
}

}  // namespace foretrain

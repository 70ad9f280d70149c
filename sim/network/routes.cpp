#include "sim/network/routes.hpp"

#include <boost/graph/compressed_sparse_row_graph.hpp>

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <unordered_map>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

struct LinkIndex {
  int link = -1;
};
using Graph = boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, LinkIndex>;

// splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// One side of the search: distances from its end, and the link by which each vertex was reached. Entries are
// valid where `round` is the current one, so that nothing is cleared between searches.
struct Side {
  std::vector<int> distance, link, round;
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> queue;

  void resize(std::size_t vertices) {
    distance.assign(vertices, 0);
    link.assign(vertices, -1);
    round.assign(vertices, 0);
  }
};

}  // namespace

struct Routes::State {
  const Topology* topology;
  Graph graph;
  Side forward, backward;
  int round = 0;
  int from = -1, to = -1;  // of the search
  int from_node = -1, to_node = -1;
  std::uint64_t flow_hash = 0;
  std::vector<std::uint32_t> used;  // by link, how many ways cross it, where they are spread
  std::unordered_map<std::uint64_t, std::pair<std::size_t, std::size_t>> cached;  // (chunk, offset) below
  std::deque<std::vector<int>> ways;  // a deque: spans into it stay valid

  explicit State(const Topology& t) : topology(&t) {
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    std::vector<LinkIndex> indices;
    edges.reserve(t.links.size());
    for (std::size_t i = 0; i < t.links.size(); ++i) {
      edges.emplace_back(static_cast<std::size_t>(t.links[i].from), static_cast<std::size_t>(t.links[i].to));
      indices.push_back({static_cast<int>(i)});
    }
    graph = Graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), indices.begin(),
                  t.vertices.size());
    forward.resize(t.vertices.size());
    backward.resize(t.vertices.size());
    if (t.network.routes == RouteChoice::spread) used.assign(t.links.size(), 0);
  }

  int weight_of(const Link& link) const {
    if (link.kind == LinkKind::network) return 3;
    if (link.kind != LinkKind::pcie) return 2;
    auto is_bridge = [this](int vertex) {
      return topology->vertices[static_cast<std::size_t>(vertex)].kind == VertexKind::host_bridge;
    };
    return is_bridge(link.from) && is_bridge(link.to) ? 5 : 3;
  }

  // Of equally short ways, that over the link of the lowest order.
  std::uint64_t order(int link) const {
    if (link < 0) return 0;
    switch (topology->network.routes) {
      case RouteChoice::hash:
        return mixed(flow_hash ^ static_cast<std::uint64_t>(link));
      case RouteChoice::spread:
        return (static_cast<std::uint64_t>(used[static_cast<std::size_t>(link)]) << 32) |
               static_cast<std::uint32_t>(link);
      case RouteChoice::first:
        return static_cast<std::uint64_t>(link);
    }
    return 0;
  }

  std::uint64_t meeting_order(int vertex) const {
    const auto v = static_cast<std::size_t>(vertex);
    switch (topology->network.routes) {
      case RouteChoice::hash:
        return mixed(~flow_hash ^ static_cast<std::uint64_t>(vertex));
      case RouteChoice::spread:
        return ((order(forward.link[v]) >> 32) + (order(backward.link[v]) >> 32)) << 32 |
               static_cast<std::uint32_t>(vertex);
      case RouteChoice::first:
        return static_cast<std::uint64_t>(vertex);
    }
    return 0;
  }

  bool known(const Side& side, int vertex) const {
    return side.round[static_cast<std::size_t>(vertex)] == round;
  }

  void start(Side& side, int vertex) {
    side.queue = {};
    label(side, vertex, 0, -1);
  }

  void label(Side& side, int vertex, int distance, int link) {
    const auto v = static_cast<std::size_t>(vertex);
    const bool is_known = side.round[v] == round;
    if (is_known && distance > side.distance[v]) return;
    if (is_known && distance == side.distance[v]) {
      if (order(link) < order(side.link[v])) side.link[v] = link;
      return;
    }
    side.round[v] = round;
    side.distance[v] = distance;
    side.link[v] = link;
    side.queue.emplace(distance, vertex);
  }

  // Whether a way may go in by one link and out by the other.
  bool may_cross(int vertex, int in, int out) const {
    if (in < 0 || out < 0) return true;
    const Vertex& here = topology->vertices[static_cast<std::size_t>(vertex)];
    if (here.kind != VertexKind::gpu && here.kind != VertexKind::cpu) return true;
    if (topology->links[static_cast<std::size_t>(in)].kind != LinkKind::nvlink) return false;
    const LinkKind next = topology->links[static_cast<std::size_t>(out)].kind;
    return next == LinkKind::nvlink ||
           (next == LinkKind::pcie && here.node == from_node && from_node != to_node);
  }

  // The inside of a node is open to what begins or ends there.
  bool may_enter(int vertex) const {
    const Vertex& here = topology->vertices[static_cast<std::size_t>(vertex)];
    return here.node < 0 || here.kind == VertexKind::network_switch || here.node == from_node ||
           here.node == to_node;
  }

  // Expands the nearest vertex of a side and keeps the best meeting point.
  void expand(Side& side, const Side& other, bool is_forward, int& best, int& meeting) {
    auto crosses = [&](int at, int own, int others) {
      return is_forward ? may_cross(at, own, others) : may_cross(at, others, own);
    };
    const auto [distance, vertex] = side.queue.top();
    side.queue.pop();
    if (distance > side.distance[static_cast<std::size_t>(vertex)]) return;
    auto relax = [&](const Graph::edge_descriptor& edge) {
      const int index = graph[edge].link;
      const Link& link = topology->links[static_cast<std::size_t>(index)];
      if (!crosses(vertex, side.link[static_cast<std::size_t>(vertex)], index)) return;
      const int next = is_forward ? link.to : link.from;
      if (!may_enter(next)) return;
      const int reached = distance + weight_of(link);
      label(side, next, reached, index);
      if (!known(other, next) || !crosses(next, index, other.link[static_cast<std::size_t>(next)])) return;
      const int total = reached + other.distance[static_cast<std::size_t>(next)];
      if (total < best || (total == best && meeting_order(next) < meeting_order(meeting))) {
        best = total;
        meeting = next;
      }
    };
    const auto v = static_cast<std::size_t>(vertex);
    if (is_forward) {
      for (auto [edge, last] = boost::out_edges(v, graph); edge != last; ++edge) relax(*edge);
    } else {
      for (auto [edge, last] = boost::in_edges(v, graph); edge != last; ++edge) relax(*edge);
    }
  }

  // Searches from both ends at once (Dijkstra), so that a switch with thousands of links is met, not crossed.
  std::vector<int> search(int first, int last) {
    ++round;
    from = first;
    to = last;
    from_node = topology->vertices[static_cast<std::size_t>(from)].node;
    to_node = topology->vertices[static_cast<std::size_t>(to)].node;
    flow_hash = mixed(mixed(topology->network.route_seed + static_cast<std::uint64_t>(from)) +
                      static_cast<std::uint64_t>(to));
    start(forward, from);
    start(backward, to);
    int best = std::numeric_limits<int>::max();
    int meeting = -1;
    while (!forward.queue.empty() && !backward.queue.empty()) {
      const int ahead = forward.queue.top().first;
      const int behind = backward.queue.top().first;
      if (meeting >= 0 && ahead + behind >= best) break;
      if (ahead <= behind) {
        expand(forward, backward, true, best, meeting);
      } else {
        expand(backward, forward, false, best, meeting);
      }
    }
    if (meeting < 0) {
      const auto& vertices = topology->vertices;
      throw Error(ErrorKind::input, "no way from '" + vertices[static_cast<std::size_t>(from)].name +
                                        "' to '" + vertices[static_cast<std::size_t>(to)].name +
                                        "' in topology '" + topology->name +
                                        "': a link between them is missing");
    }
    std::vector<int> way;
    for (int at = meeting; at != from; at = topology->links[static_cast<std::size_t>(way.back())].from) {
      way.push_back(forward.link[static_cast<std::size_t>(at)]);
    }
    std::reverse(way.begin(), way.end());
    for (int at = meeting; at != to; at = topology->links[static_cast<std::size_t>(way.back())].to) {
      way.push_back(backward.link[static_cast<std::size_t>(at)]);
    }
    if (!used.empty()) {
      for (int link : way) ++used[static_cast<std::size_t>(link)];
    }
    return way;
  }
};

Routes::Routes(const Topology& topology) : state_(std::make_unique<State>(topology)) {}
Routes::~Routes() = default;
Routes::Routes(Routes&&) noexcept = default;
Routes& Routes::operator=(Routes&&) noexcept = default;

std::span<const int> Routes::between(int from, int to) {
  if (from == to) return {};
  const std::uint64_t key =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32) | static_cast<std::uint32_t>(to);
  const auto found = state_->cached.find(key);
  if (found != state_->cached.end()) {
    const auto [offset, length] = found->second;
    return std::span<const int>(state_->ways[offset >> 32]).subspan(offset & 0xffffffffU, length);
  }
  const std::vector<int> way = state_->search(from, to);
  constexpr std::size_t chunk = 1 << 16;
  auto& ways = state_->ways;
  if (ways.empty() || ways.back().size() + way.size() > ways.back().capacity()) {
    ways.emplace_back();
    ways.back().reserve(std::max(chunk, way.size()));
  }
  const std::size_t at = ways.back().size();
  ways.back().insert(ways.back().end(), way.begin(), way.end());
  state_->cached.emplace(key, std::pair{((ways.size() - 1) << 32) | at, way.size()});
  return std::span<const int>(ways.back()).subspan(at, way.size());
}

Time Routes::latency(int from, int to) {
  Time sum;
  for (int link : between(from, to)) sum += state_->topology->links[static_cast<std::size_t>(link)].latency;
  return sum;
}

}  // namespace foretrain

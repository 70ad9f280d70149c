#include "sim/network/routes.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/network/fabric_ways.hpp"
#include "sim/network/way_graph.hpp"

namespace foretrain {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

// One side of the search: distances from its end, and the link by which each vertex was reached. Entries are
// valid where `round` is the current one, so that nothing is cleared between searches.
struct Side {
  struct Entry {
    int distance = 0, round = 0;
    WayLink link;
  };
  std::vector<Entry> entries;
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> queue;

  bool known(int vertex, int round) const { return entries[at(vertex)].round == round; }
};

constexpr WayLink no_link{-1, -1, 0, LinkKind::network};

// A way from a worker to a switch of the network, or from one to a worker.
struct Gate {
  int outside = 0;  // the switch
  int length = 0;
  std::uint32_t begin = 0, end = 0;  // links of the way, in a list of all
};

// Of workers that have been asked for.
struct Gates {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> of_vertex;  // begin and end in `all`; 0, 0: not yet
  std::vector<Gate> all = {{}};
  std::vector<int> links;

  std::span<const Gate> of(int worker) const {
    const auto [begin, end] = of_vertex[at(worker)];
    return std::span(all).subspan(begin, end - begin);
  }
  void append_way(const Gate& gate, std::vector<int>& way) const {
    way.insert(way.end(), links.begin() + gate.begin, links.begin() + gate.end);
  }
};

// Ways that are known, by both ends, in one list: open addressing at a power of two of places.
class KnownWays {
 public:
  struct Way {
    std::uint64_t key = 0;  // 0: free; no way begins where it ends
    std::uint32_t chunk = 0, begin = 0, length = 0;
  };

  const Way* find(std::uint64_t key) const {
    if (places_.empty()) return nullptr;
    const Way& way = places_[place(places_, key)];
    return way.key == key ? &way : nullptr;
  }
  void insert(const Way& way) {
    if (2 * (count_ + 1) > places_.size()) {
      std::vector<Way> larger(std::max<std::size_t>(64, 2 * places_.size()));
      for (const Way& each : places_) {
        if (each.key != 0) larger[place(larger, each.key)] = each;
      }
      places_ = std::move(larger);
    }
    places_[place(places_, way.key)] = way;
    ++count_;
  }

 private:
  static std::size_t place(const std::vector<Way>& places, std::uint64_t key) {
    std::size_t i = mixed_bits(key) & (places.size() - 1);
    while (places[i].key != 0 && places[i].key != key) i = (i + 1) & (places.size() - 1);
    return i;
  }

  std::vector<Way> places_;
  std::size_t count_ = 0;
};

}  // namespace

struct Routes::State {
  const Topology* topology;
  WayGraph graph;
  FabricWays fabric;
  bool by_fabric;  // ways between nodes are put together from gates and the ways of the fabric
  Side forward, backward;
  int round = 0;
  int from = -1, to = -1;  // of the search
  int from_node = -1, to_node = -1;
  std::uint64_t flow_hash = 0;
  struct Pair {
    const Gate* out;
    const Gate* in;
  };
  std::vector<Pair> pairs;          // of equally short ways
  std::vector<std::uint32_t> used;  // by link, how many ways cross it, where they are spread
  Gates exits, entries;
  KnownWays known;
  std::deque<std::vector<int>> ways;  // a deque: spans into it stay valid

  explicit State(const Topology& t)
      : topology(&t),
        graph(t),
        fabric(graph),
        by_fabric(t.network.routes != RouteChoice::spread && fabric.is_small()) {
    forward.entries.resize(t.vertices.size());
    backward.entries.resize(t.vertices.size());
    exits.of_vertex.resize(t.vertices.size());
    entries.of_vertex.resize(t.vertices.size());
    if (t.network.routes == RouteChoice::spread) used.assign(t.links.size(), 0);
  }

  // Of equally short ways, that over the link of the lowest order.
  std::uint64_t order(int link) const {
    if (link < 0) return 0;
    switch (topology->network.routes) {
      case RouteChoice::hash:
        return mixed_bits(flow_hash ^ static_cast<std::uint64_t>(link));
      case RouteChoice::spread:
        return (static_cast<std::uint64_t>(used[at(link)]) << 32) | static_cast<std::uint32_t>(link);
      case RouteChoice::first:
        return static_cast<std::uint64_t>(link);
    }
    return 0;
  }

  std::uint64_t meeting_order(int vertex) const {
    switch (topology->network.routes) {
      case RouteChoice::hash:
        return mixed_bits(~flow_hash ^ static_cast<std::uint64_t>(vertex));
      case RouteChoice::spread:
        return ((order(forward.entries[at(vertex)].link.link) >> 32) +
                (order(backward.entries[at(vertex)].link.link) >> 32))
                   << 32 |
               static_cast<std::uint32_t>(vertex);
      case RouteChoice::first:
        return static_cast<std::uint64_t>(vertex);
    }
    return 0;
  }

  void start(Side& side, int vertex) {
    side.queue = {};
    label(side, vertex, 0, no_link);
  }

  void label(Side& side, int vertex, int distance, const WayLink& link) {
    Side::Entry& entry = side.entries[at(vertex)];
    const bool is_known = entry.round == round;
    if (is_known && distance > entry.distance) return;
    if (is_known && distance == entry.distance) {
      if (order(link.link) < order(entry.link.link)) entry.link = link;
      return;
    }
    entry = {distance, round, link};
    side.queue.emplace(distance, vertex);
  }

  // Whether a way may go in by one link and out by the other.
  bool may_cross(int vertex, const WayLink& in, const WayLink& out) const {
    if (in.link < 0 || out.link < 0 || !graph.is_worker(vertex)) return true;
    if (in.kind != LinkKind::nvlink) return false;
    return out.kind == LinkKind::nvlink ||
           (out.kind == LinkKind::pcie && graph.node(vertex) == from_node && from_node != to_node);
  }

  // The inside of a node is open to what begins or ends there.
  bool may_enter(int vertex) const {
    const int node = graph.node(vertex);
    return node < 0 || node == from_node || node == to_node || graph.is_outside(vertex);
  }

  // Expands the nearest vertex of a side and keeps the best meeting point.
  void expand(Side& side, const Side& other, bool is_forward, int& best, int& meeting) {
    auto crosses = [&](int vertex, const WayLink& own, const WayLink& others) {
      return is_forward ? may_cross(vertex, own, others) : may_cross(vertex, others, own);
    };
    const auto [distance, vertex] = side.queue.top();
    side.queue.pop();
    const Side::Entry here = side.entries[at(vertex)];
    if (distance > here.distance) return;
    for (const WayLink& link : is_forward ? graph.leaving(vertex) : graph.arriving(vertex)) {
      if (!crosses(vertex, here.link, link) || !may_enter(link.other)) continue;
      const int reached = distance + link.length;
      if (reached > best) continue;
      label(side, link.other, reached, link);
      if (!other.known(link.other, round) || !crosses(link.other, link, other.entries[at(link.other)].link)) {
        continue;
      }
      const int total = reached + other.entries[at(link.other)].distance;
      if (total < best || (total == best && meeting_order(link.other) < meeting_order(meeting))) {
        best = total;
        meeting = link.other;
      }
    }
  }

  void begin(int first, int last) {
    ++round;
    from = first;
    to = last;
    from_node = graph.node(from);
    to_node = graph.node(to);
    flow_hash = mixed_bits(mixed_bits(topology->network.route_seed + static_cast<std::uint64_t>(from)) +
                           static_cast<std::uint64_t>(to));
  }

  [[noreturn]] void refuse() const {
    const auto& vertices = topology->vertices;
    throw Error(ErrorKind::input, "no way from '" + vertices[at(from)].name + "' to '" +
                                      vertices[at(to)].name + "' in topology '" + topology->name +
                                      "': a link between them is missing");
  }

  // Searches from both ends at once (Dijkstra), so that a switch with thousands of links is met, not crossed.
  std::vector<int> search() {
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
    if (meeting < 0) refuse();
    std::vector<int> way = way_back(forward, meeting, from);
    std::reverse(way.begin(), way.end());
    const std::vector<int> rest = way_back(backward, meeting, to);
    way.insert(way.end(), rest.begin(), rest.end());
    if (!used.empty()) {
      for (int link : way) ++used[at(link)];
    }
    return way;
  }

  // Links from a vertex back to the end of a side.
  std::vector<int> way_back(const Side& side, int vertex, int end) const {
    std::vector<int> way;
    while (vertex != end) {
      const int link = side.entries[at(vertex)].link.link;
      way.push_back(link);
      const Link& crossed = topology->links[at(link)];
      vertex = crossed.to == vertex ? crossed.from : crossed.to;
    }
    return way;
  }

  // The shortest ways between a worker and the switches around its node, one for each link that they may end
  // with; nearest first.
  std::span<const Gate> gates(int worker, bool is_exit) {
    Gates& known_gates = is_exit ? exits : entries;
    auto& [first_gate, last_gate] = known_gates.of_vertex[at(worker)];
    if (last_gate > 0) return known_gates.of(worker);
    std::vector<Gate>& all = known_gates.all;
    first_gate = static_cast<std::uint32_t>(all.size());
    struct End {
      int length, outside, inside, link;
    };
    std::vector<End> ends;
    ++round;
    Side& side = is_exit ? forward : backward;
    const std::uint64_t hash = std::exchange(flow_hash, 0);
    start(side, worker);
    const int node = graph.node(worker);
    while (!side.queue.empty()) {
      const auto [distance, vertex] = side.queue.top();
      side.queue.pop();
      const Side::Entry here = side.entries[at(vertex)];
      if (distance > here.distance) continue;
      for (const WayLink& link : is_exit ? graph.leaving(vertex) : graph.arriving(vertex)) {
        if (!(is_exit ? may_cross(vertex, here.link, link) : may_cross(vertex, link, here.link))) continue;
        const int reached = distance + link.length;
        if (!graph.is_outside(link.other)) {
          if (graph.node(link.other) == node) label(side, link.other, reached, link);
          continue;
        }
        ends.push_back({reached, link.other, vertex, link.link});
      }
    }
    flow_hash = hash;
    std::stable_sort(ends.begin(), ends.end(),
                     [](const End& a, const End& b) { return a.length < b.length; });
    for (const End& end : ends) {
      const bool is_longer = std::any_of(all.begin() + first_gate, all.end(), [&](const Gate& nearer) {
        return nearer.outside == end.outside && nearer.length < end.length;
      });
      if (is_longer) continue;
      std::vector<int> way = way_back(side, end.inside, worker);
      way.insert(way.begin(), end.link);
      if (is_exit) std::reverse(way.begin(), way.end());
      const auto begin = static_cast<std::uint32_t>(known_gates.links.size());
      known_gates.links.insert(known_gates.links.end(), way.begin(), way.end());
      all.push_back({end.outside, end.length, begin, begin + static_cast<std::uint32_t>(way.size())});
    }
    last_gate = static_cast<std::uint32_t>(all.size());
    return known_gates.of(worker);
  }

  // From node to node: out by a gate, over the fabric, in by a gate.
  std::vector<int> compose() {
    const std::span<const Gate> leaving = gates(from, true);
    const std::span<const Gate> arriving = gates(to, false);
    int best = std::numeric_limits<int>::max();
    std::vector<Pair>& fitting = pairs;
    fitting.clear();
    for (const Gate& out : leaving) {
      for (const Gate& in : arriving) {
        const int inside = out.length + in.length;
        if (inside > best) break;
        const int between = fabric.distance(out.outside, in.outside);
        if (between < 0 || inside + between > best) continue;
        if (inside + between < best) fitting.clear();
        best = inside + between;
        fitting.push_back({&out, &in});
      }
    }
    if (fitting.empty()) refuse();
    const bool is_first = topology->network.routes == RouteChoice::first;
    const Pair& taken = fitting[is_first ? 0 : mixed_bits(flow_hash) % fitting.size()];
    std::vector<int> way;
    exits.append_way(*taken.out, way);
    fabric.append_way(taken.out->outside, taken.in->outside, flow_hash, is_first, way);
    entries.append_way(*taken.in, way);
    return way;
  }

  std::vector<int> find(int first, int last) {
    begin(first, last);
    const bool is_between_nodes = from_node >= 0 && to_node >= 0 && from_node != to_node &&
                                  !graph.is_outside(from) && !graph.is_outside(to);
    return by_fabric && is_between_nodes ? compose() : search();
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
  auto& ways = state_->ways;
  if (const KnownWays::Way* known = state_->known.find(key)) {
    return std::span<const int>(ways[known->chunk]).subspan(known->begin, known->length);
  }
  const std::vector<int> way = state_->find(from, to);
  constexpr std::size_t chunk = 1 << 16;
  if (ways.empty() || ways.back().size() + way.size() > ways.back().capacity()) {
    ways.emplace_back();
    ways.back().reserve(std::max(chunk, way.size()));
  }
  const std::size_t begin = ways.back().size();
  ways.back().insert(ways.back().end(), way.begin(), way.end());
  state_->known.insert({key, static_cast<std::uint32_t>(ways.size() - 1), static_cast<std::uint32_t>(begin),
                        static_cast<std::uint32_t>(way.size())});
  return std::span<const int>(ways.back()).subspan(begin, way.size());
}

Time Routes::latency(int from, int to) {
  Time sum;
  for (int link : between(from, to)) sum += state_->topology->links[static_cast<std::size_t>(link)].latency;
  return sum;
}

}  // namespace foretrain

#include "sim/network/routes.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/network/fabric_ways.hpp"
#include "sim/network/node_copies.hpp"
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
    std::uint64_t crowding = 0;  // of the way so far, where ways are spread
  };
  std::vector<Entry> entries;
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> queue;

  bool known(int vertex, int round) const { return entries[at(vertex)].round == round; }
};

std::uint64_t pair_key(int from, int to) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32) |
         static_cast<std::uint32_t>(to);
}

constexpr WayLink no_link{-1, -1, 0, LinkKind::network};

// A shortest way between a worker and a vertex of its node from which a link goes on outside.
struct NodeEnd {
  int length = 0;
  int inside = 0;                    // the vertex
  std::uint32_t place = 0;           // of the link among those that leave it, or arrive
  std::uint32_t begin = 0, end = 0;  // links of the way within the node, in a list of all
};

// A way from a worker to a switch of the network, or from one to a worker.
struct Gate {
  int outside = 0;  // the switch
  int length = 0;
  std::uint32_t begin = 0, end = 0;  // links of the way within the node, in a list of all
  int shift = 0;                     // to be added to them
  int link = 0;                      // the one outside
};

// Of workers that have been asked for.
struct Gates {
  struct Ends {
    std::uint32_t begin = 0, end = 0;
    bool may_move = false;  // no other way is as short: in copies of the node the same one is taken
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> of_vertex;  // begin and end in `all`; 0, 0: not yet
  std::vector<Gate> all = {{}};
  std::unordered_map<int, Ends> ends_of;  // a worker
  std::vector<NodeEnd> ends;
  std::vector<int> links;

  std::span<const Gate> of(int worker) const {
    const auto [begin, end] = of_vertex[at(worker)];
    return std::span(all).subspan(begin, end - begin);
  }
  void append_inside(const Gate& gate, std::vector<int>& way) const {
    for (std::uint32_t i = gate.begin; i < gate.end; ++i) way.push_back(links[i] + gate.shift);
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
  NodeCopies copies;
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
  bool has_ties = false;  // the search met ways of one length
  KnownWays known;
  struct InsideWay {
    std::vector<int> links;
    bool may_move = false;
  };
  std::unordered_map<std::uint64_t, InsideWay> inside;  // of the first node of a like, by both ends
  std::vector<int> found;                               // the way asked for last
  std::deque<std::vector<int>> ways;                    // a deque: spans into it stay valid

  State(const Topology& t, RouteSearch search)
      : topology(&t),
        graph(t),
        fabric(graph),
        copies(graph),
        by_fabric(search == RouteSearch::by_halves && t.network.routes != RouteChoice::spread &&
                  fabric.is_small()) {
    forward.entries.resize(t.vertices.size());
    backward.entries.resize(t.vertices.size());
    exits.of_vertex.resize(t.vertices.size());
    entries.of_vertex.resize(t.vertices.size());
    if (t.network.routes == RouteChoice::spread) used.assign(t.links.size(), 0);
  }

  // Of equally short ways by hash, that over the link of the lowest order; of equally crowded ones, the
  // first.
  std::uint64_t order(int link) const {
    if (link < 0) return 0;
    const bool by_hash = topology->network.routes == RouteChoice::hash;
    const auto number = static_cast<std::uint64_t>(link);
    return by_hash ? mixed_bits(flow_hash ^ number) : number;
  }

  std::uint64_t meeting_order(int vertex) const {
    const bool by_hash = topology->network.routes == RouteChoice::hash;
    const auto number = static_cast<std::uint64_t>(vertex);
    return by_hash ? mixed_bits(~flow_hash ^ number) : number;
  }

  // By squares: a way over two links with a way each is better than one over a link with two and a free one.
  std::uint64_t crowding(int link) const {
    if (used.empty()) return 0;
    const std::uint64_t ways_there = used[at(link)];
    return ways_there * ways_there;
  }

  void start(Side& side, int vertex) {
    side.queue = {};
    label(side, vertex, 0, no_link, 0);
  }

  void label(Side& side, int vertex, int distance, const WayLink& link, std::uint64_t crowded) {
    Side::Entry& entry = side.entries[at(vertex)];
    const bool is_known = entry.round == round;
    if (is_known && distance > entry.distance) return;
    if (is_known && distance == entry.distance) {
      has_ties = true;
      if (std::pair(crowded, order(link.link)) < std::pair(entry.crowding, order(entry.link.link))) {
        entry.link = link;
        entry.crowding = crowded;
      }
      return;
    }
    entry = {distance, round, link, crowded};
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

  std::pair<std::uint64_t, std::uint64_t> meeting_rank(int vertex) const {
    return {forward.entries[at(vertex)].crowding + backward.entries[at(vertex)].crowding,
            meeting_order(vertex)};
  }

  // Expands the nearest vertex of a side and keeps the best meeting point. What is known of a vertex when it
  // is expanded is final: all links have a length, so that all before it have been.
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
      label(side, link.other, reached, link, here.crowding + crowding(link.link));
      if (!other.known(link.other, round) || !crosses(link.other, link, other.entries[at(link.other)].link)) {
        continue;
      }
      const int total = reached + other.entries[at(link.other)].distance;
      has_ties = has_ties || (total == best && link.other != meeting);
      if (total < best || (total == best && meeting_rank(link.other) < meeting_rank(meeting))) {
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

  // The shortest ways between a worker and the links that join its node to others, nearest first.
  Gates::Ends node_ends(int worker, bool is_exit) {
    Gates& known_gates = is_exit ? exits : entries;
    const auto [place, is_new] = known_gates.ends_of.try_emplace(worker);
    if (!is_new) return place->second;
    struct End {
      int length, inside;
      std::size_t place;
    };
    std::vector<End> ends;
    ++round;
    Side& side = is_exit ? forward : backward;
    const int node = graph.node(worker);
    const std::uint64_t hash = std::exchange(flow_hash, 0);
    const int own_node = std::exchange(from_node, is_exit ? node : -1);
    const int other_node = std::exchange(to_node, is_exit ? -1 : node);
    has_ties = false;
    start(side, worker);
    while (!side.queue.empty()) {
      const auto [distance, vertex] = side.queue.top();
      side.queue.pop();
      const Side::Entry here = side.entries[at(vertex)];
      if (distance > here.distance) continue;
      const std::span<const WayLink> links = is_exit ? graph.leaving(vertex) : graph.arriving(vertex);
      for (std::size_t i = 0; i < links.size(); ++i) {
        const WayLink& link = links[i];
        if (!(is_exit ? may_cross(vertex, here.link, link) : may_cross(vertex, link, here.link))) continue;
        const int reached = distance + link.length;
        if (graph.is_outside(link.other)) {
          ends.push_back({reached, vertex, i});
        } else if (graph.node(link.other) == node) {
          label(side, link.other, reached, link, 0);
        }
      }
    }
    flow_hash = hash;
    from_node = own_node;
    to_node = other_node;
    std::stable_sort(ends.begin(), ends.end(),
                     [](const End& a, const End& b) { return a.length < b.length; });
    Gates::Ends& out = place->second;
    out.may_move = !has_ties;
    out.begin = static_cast<std::uint32_t>(known_gates.ends.size());
    for (const End& end : ends) {
      std::vector<int> way = way_back(side, end.inside, worker);
      if (is_exit) std::reverse(way.begin(), way.end());
      const auto begin = static_cast<std::uint32_t>(known_gates.links.size());
      known_gates.links.insert(known_gates.links.end(), way.begin(), way.end());
      known_gates.ends.push_back({end.length, end.inside, static_cast<std::uint32_t>(end.place), begin,
                                  begin + static_cast<std::uint32_t>(way.size())});
    }
    out.end = static_cast<std::uint32_t>(known_gates.ends.size());
    return out;
  }

  // The shortest ways between a worker and the switches around its node, one for each link that they may end
  // with; nearest first.
  std::span<const Gate> gates(int worker, bool is_exit) {
    Gates& known_gates = is_exit ? exits : entries;
    if (known_gates.of_vertex[at(worker)].second > 0) return known_gates.of(worker);
    NodeShift shift = copies.shift(graph.node(worker));
    Gates::Ends ends = node_ends(worker - shift.vertex, is_exit);
    if (shift.vertex != 0 && !ends.may_move) {
      shift = {};
      ends = node_ends(worker, is_exit);
    }
    std::vector<Gate>& all = known_gates.all;
    const auto first_gate = static_cast<std::uint32_t>(all.size());
    for (std::uint32_t e = ends.begin; e < ends.end; ++e) {
      const NodeEnd& end = known_gates.ends[e];
      const int vertex = end.inside + shift.vertex;
      const WayLink& link = (is_exit ? graph.leaving(vertex) : graph.arriving(vertex))[end.place];
      const bool is_longer = std::any_of(all.begin() + first_gate, all.end(), [&](const Gate& nearer) {
        return nearer.outside == link.other && nearer.length < end.length;
      });
      if (!is_longer) all.push_back({link.other, end.length, end.begin, end.end, shift.link, link.link});
    }
    known_gates.of_vertex[at(worker)] = {first_gate, static_cast<std::uint32_t>(all.size())};
    return known_gates.of(worker);
  }

  // From node to node: out by a gate, over the fabric, in by a gate.
  void compose(std::vector<int>& way) {
    const std::span<const Gate> leaving = gates(from, true);
    const std::span<const Gate> arriving = gates(to, false);
    int best = std::numeric_limits<int>::max();
    std::vector<Pair>& fitting = pairs;
    fitting.clear();
    for (const Gate& out : leaving) {
      for (const Gate& in : arriving) {
        const int within = out.length + in.length;
        if (within > best) break;
        const int between = fabric.distance(out.outside, in.outside);
        if (between < 0 || within + between > best) continue;
        if (within + between < best) fitting.clear();
        best = within + between;
        fitting.push_back({&out, &in});
      }
    }
    if (fitting.empty()) refuse();
    const bool is_first = topology->network.routes == RouteChoice::first;
    const Pair& taken = fitting[is_first ? 0 : mixed_bits(flow_hash) % fitting.size()];
    exits.append_inside(*taken.out, way);
    way.push_back(taken.out->link);
    fabric.append_way(taken.out->outside, taken.in->outside, flow_hash, is_first, way);
    way.push_back(taken.in->link);
    entries.append_inside(*taken.in, way);
  }

  // Within a node: as in the first of its like, where that leaves no choice.
  void search_inside(int first, int last, std::vector<int>& way) {
    const NodeShift shift = copies.shift(from_node);
    const int like_first = first - shift.vertex, like_last = last - shift.vertex;
    const auto [place, is_new] = inside.try_emplace(pair_key(like_first, like_last));
    InsideWay& like = place->second;
    if (is_new) {
      begin(like_first, like_last);
      has_ties = false;
      like.links = search();
      like.may_move = !has_ties && std::all_of(like.links.begin(), like.links.end(), [&](int link) {
        const Link& crossed = topology->links[at(link)];
        return !graph.is_outside(crossed.from) && !graph.is_outside(crossed.to);
      });
    }
    if (like.may_move || shift.vertex == 0) {
      for (int link : like.links) way.push_back(link + shift.link);
    } else {
      begin(first, last);
      way = search();
    }
  }

  // Valid until the next.
  const std::vector<int>& find(int first, int last) {
    begin(first, last);
    found.clear();
    const bool is_inside_nodes =
        from_node >= 0 && to_node >= 0 && !graph.is_outside(from) && !graph.is_outside(to);
    if (is_inside_nodes && from_node != to_node && by_fabric) {
      compose(found);
    } else if (is_inside_nodes && from_node == to_node && used.empty()) {
      search_inside(first, last, found);
    } else {
      found = search();
    }
    return found;
  }
};

Routes::Routes(const Topology& topology, RouteSearch search)
    : state_(std::make_unique<State>(topology, search)) {}
Routes::~Routes() = default;
Routes::Routes(Routes&&) noexcept = default;
Routes& Routes::operator=(Routes&&) noexcept = default;

std::span<const int> Routes::between(int from, int to) {
  if (from == to) return {};
  const std::uint64_t key = pair_key(from, to);
  auto& ways = state_->ways;
  if (const KnownWays::Way* known = state_->known.find(key)) {
    return std::span<const int>(ways[known->chunk]).subspan(known->begin, known->length);
  }
  const std::vector<int>& way = state_->find(from, to);
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

std::span<const int> Routes::way(int from, int to) {
  if (from == to) return {};
  const bool depends_on_others = !state_->used.empty();
  return depends_on_others ? between(from, to) : std::span<const int>(state_->find(from, to));
}

Time Routes::latency(int from, int to) {
  Time sum;
  for (int link : between(from, to)) sum += state_->topology->links[static_cast<std::size_t>(link)].latency;
  return sum;
}

std::vector<NodeGate> Routes::gates(int worker, bool leaving) {
  State& state = *state_;
  const Gates& known = leaving ? state.exits : state.entries;
  std::vector<NodeGate> all;
  for (const Gate& gate : state.gates(worker, leaving)) {
    NodeGate& own = all.emplace_back(NodeGate{gate.outside, gate.length, {}});
    if (!leaving) own.links.push_back(gate.link);
    known.append_inside(gate, own.links);
    if (leaving) own.links.push_back(gate.link);
  }
  return all;
}

FabricWays& Routes::fabric() {
  return state_->fabric;
}

}  // namespace foretrain

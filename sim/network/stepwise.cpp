#include "sim/network/stepwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "sim/base/error.hpp"
#include "sim/network/flows.hpp"
#include "sim/network/in_network.hpp"

namespace foretrain {
namespace {

constexpr std::uint64_t most_sends = 50'000'000;

struct Way {
  std::span<const int> links;
  Time latency;
};

Way way_between(Routes& routes, const RankGroup& group, int from, int to) {
  const int a = group.workers[static_cast<std::size_t>(from)],
            b = group.workers[static_cast<std::size_t>(to)];
  return {routes.between(a, b), routes.latency(a, b)};
}

int add_route(FlowEngine& engine, Routes& routes, const RankGroup& group, int from, int to) {
  const Way way = way_between(routes, group, from, to);
  return engine.add_route(way.links, way.latency);
}

// Ranks by counters alone, so that a ring of thousands needs no list of its millions of sends.
void run_rings(FlowEngine& engine, Routes& routes, const RankGroup& group, int steps, double bytes,
               int rings) {
  const auto n = static_cast<std::size_t>(group.ranks);
  struct Place {  // of a rank in a ring
    int route = 0;
    int next = 0;                             // place that it sends to
    int started = 0, sent = 0, received = 0;  // steps
  };
  std::vector<Place> places(n * static_cast<std::size_t>(rings));
  const std::vector<std::vector<int>> orders = ring_orders(group, rings);
  for (std::size_t ring = 0; ring < orders.size(); ++ring) {
    const std::vector<int>& order = orders[ring];
    const std::size_t base = n * ring;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t next = (i + 1) % n;
      places[base + i].route = add_route(engine, routes, group, order[i], order[next]);
      places[base + i].next = static_cast<int>(base + next);
    }
  }
  const double chunk = bytes / static_cast<double>(n) / rings;
  auto start = [&](std::size_t at) {
    ++places[at].started;
    engine.start(places[at].route, chunk, at);
  };
  auto start_if_ready = [&](std::size_t at) {
    const Place& place = places[at];
    if (place.started < steps && place.sent == place.started && place.received >= place.started) start(at);
  };
  for (std::size_t at = 0; at < places.size(); ++at) start(at);
  std::vector<std::uint64_t> through;
  while (engine.advance(through)) {
    for (std::uint64_t at : through) {
      Place& place = places[at];
      ++place.sent;
      ++places[static_cast<std::size_t>(place.next)].received;
      start_if_ready(at);
      start_if_ready(static_cast<std::size_t>(place.next));
    }
    through.clear();
  }
}

// Sends that wait for others: a graph without cycles.
class SendGraph {
 public:
  SendGraph(FlowEngine& engine, Routes& routes, const RankGroup& group)
      : engine_(engine), routes_(routes), group_(group) {}

  // A stream of pieces from one rank to another; returns the first send's index, the others follow it. Each
  // follows the one before on the wire: the way's latency passes while that one moves.
  int add_stream(int from, int to, double bytes, int pieces) {
    return add_stream_on(way_between(routes_, group_, from, to), bytes, pieces);
  }

  int add_stream_on(const Way& way, double bytes, int pieces) {
    const bool has_heads = pieces > 1 && way.latency > Time();
    const int route = engine_.add_route(way.links, has_heads ? Time() : way.latency);
    const int head = has_heads ? engine_.add_route({}, way.latency) : -1;
    const int heads = static_cast<int>(sends_.size());
    if (has_heads) {
      for (int piece = 0; piece < pieces; ++piece) sends_.push_back({head, 0, 0, -1, {}});
      heads_ += static_cast<std::uint64_t>(pieces);
    }
    const auto first = static_cast<int>(sends_.size());
    for (int piece = 0; piece < pieces; ++piece) {
      sends_.push_back({route, bytes / pieces, 0, -1, {}});
      if (piece > 0) add_order(first + piece - 1, first + piece);
      if (!has_heads) continue;
      add_order(heads + piece, first + piece);
      sends_.back().head = heads + piece;
    }
    return first;
  }

  // The pieces of `later` each wait for the same piece of `earlier`.
  void chain(int earlier, int later, int pieces) {
    for (int piece = 0; piece < pieces; ++piece) add_wait(earlier + piece, later + piece);
  }

  // One send over a single link, whoever its ends are.
  int add_link_stream(const Topology& topology, int link, double bytes, int pieces) {
    const int way[] = {link};
    return add_stream_on({way, topology.links[static_cast<std::size_t>(link)].latency}, bytes, pieces);
  }

  // Rounds one after the other: a rank sends in a round once it has sent and received all of the one before.
  // `gates` are what its first sends wait for, and become what comes after its last.
  void add_rounds(const std::vector<Round>& all, double bytes, std::vector<std::vector<int>>& gates) {
    for (const Round& round : all) {
      for (int turn = 0; turn < round.repeat; ++turn) {
        std::vector<std::vector<int>> next(gates.size());
        for (const Transfer& each : round.transfers) {
          const int send = add_stream(each.from, each.to, bytes * each.share, 1);
          for (int before : gates[static_cast<std::size_t>(each.from)]) add_wait(before, send);
          next[static_cast<std::size_t>(each.from)].push_back(send);
          next[static_cast<std::size_t>(each.to)].push_back(send);
        }
        for (std::size_t rank = 0; rank < next.size(); ++rank) {
          if (next[rank].empty()) next[rank] = gates[rank];  // it sits this one out
        }
        gates = std::move(next);
      }
    }
  }

  // The later one sets out once the earlier has come.
  void add_wait(int earlier, int later) {
    const int head = sends_[static_cast<std::size_t>(later)].head;
    add_order(earlier, head >= 0 ? head : later);
  }

  // Of what the engine has started those that are no messages.
  std::uint64_t heads() const { return heads_; }

  void run() {
    for (std::size_t i = 0; i < sends_.size(); ++i) {
      if (sends_[i].waits_for == 0) engine_.start(sends_[i].route, sends_[i].bytes, i);
    }
    std::vector<std::uint64_t> through;
    while (engine_.advance(through)) {
      for (std::uint64_t done : through) {
        for (int next : sends_[done].before) {
          Send& send = sends_[static_cast<std::size_t>(next)];
          if (--send.waits_for == 0) {
            engine_.start(send.route, send.bytes, static_cast<std::uint64_t>(next));
          }
        }
      }
      through.clear();
    }
  }

 private:
  void add_order(int earlier, int later) {
    sends_[static_cast<std::size_t>(earlier)].before.push_back(later);
    ++sends_[static_cast<std::size_t>(later)].waits_for;
  }

  struct Send {
    int route = 0;
    double bytes = 0;
    int waits_for = 0;
    int head = -1;  // the send of nothing that takes the way's latency before it; none where its own does
    std::vector<int> before;
  };

  FlowEngine& engine_;
  Routes& routes_;
  const RankGroup& group_;
  std::vector<Send> sends_;
  std::uint64_t heads_ = 0;
};

// Parents of the ranks: the trees of the nodes, and chains within each from the GPU that talks to other
// nodes. `orders` are those in each node, one a pair of trees.
std::vector<int> rank_tree(const RankGroup& group, const std::vector<TreeNode>& nodes,
                           const std::vector<std::vector<std::vector<int>>>& orders, std::size_t pair) {
  std::vector<int> parents(static_cast<std::size_t>(group.ranks), -1);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<int>& order = orders[node][pair];
    for (std::size_t i = 1; i < order.size(); ++i) parents[static_cast<std::size_t>(order[i])] = order[i - 1];
    if (nodes[node].parent < 0) continue;
    parents[static_cast<std::size_t>(order.front())] =
        orders[static_cast<std::size_t>(nodes[node].parent)][pair].front();
  }
  return parents;
}

void add_tree(SendGraph& graph, const std::vector<int>& parents, double bytes, int pieces) {
  const std::size_t n = parents.size();
  std::vector<int> up(n, -1), down(n, -1);
  std::vector<int> under_root;
  for (std::size_t rank = 0; rank < n; ++rank) {
    if (parents[rank] < 0) continue;
    const auto parent = static_cast<std::size_t>(parents[rank]);
    if (parents[parent] < 0) under_root.push_back(static_cast<int>(rank));
    up[rank] = graph.add_stream(static_cast<int>(rank), parents[rank], bytes, pieces);
    down[rank] = graph.add_stream(parents[rank], static_cast<int>(rank), bytes, pieces);
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    if (parents[rank] < 0) continue;
    const auto parent = static_cast<std::size_t>(parents[rank]);
    if (parents[parent] >= 0) {
      graph.chain(up[rank], up[parent], pieces);      // a sum goes up once all children's parts are there
      graph.chain(down[parent], down[rank], pieces);  // and down once it is here
      continue;
    }
    for (int other : under_root) graph.chain(up[static_cast<std::size_t>(other)], down[rank], pieces);
  }
}

void add_chain(SendGraph& graph, const std::vector<int>& order, bool towards_first, double bytes,
               int pieces) {
  int before = -1;
  const std::size_t n = order.size();
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const int stream = towards_first ? graph.add_stream(order[n - 1 - i], order[n - 2 - i], bytes, pieces)
                                     : graph.add_stream(order[i], order[i + 1], bytes, pieces);
    if (before >= 0) graph.chain(before, stream, pieces);
    before = stream;
  }
}

// Up the trees in pieces, each link once those below have brought theirs, and down the same way; between the
// rounds within the nodes.
void add_in_network(SendGraph& graph, const Topology& topology, Routes& routes, const RankGroup& group,
                    double bytes, int pieces) {
  const Round inside = round_within_nodes(group);
  std::vector<std::vector<int>> gates(static_cast<std::size_t>(group.ranks));
  if (inside.repeat > 0) graph.add_rounds({inside}, bytes, gates);
  std::vector<std::vector<int>> after(gates.size());
  const std::vector<SwitchTree> trees = switch_trees(topology, routes, group);
  for (const SwitchTree& tree : trees) {
    const std::size_t links = tree.up.size();
    std::vector<int> up(links), down(links);
    for (std::size_t i = 0; i < links; ++i) {
      const Link& link = topology.links[static_cast<std::size_t>(tree.up[i])];
      up[i] = graph.add_link_stream(topology, tree.up[i], bytes * tree.share, pieces);
      down[i] = graph.add_link_stream(topology, link.reverse, bytes * tree.share, pieces);
    }
    for (std::size_t i = 0; i < links; ++i) {
      if (tree.parent[i] >= 0) {
        const auto above = static_cast<std::size_t>(tree.parent[i]);
        graph.chain(up[i], up[above], pieces);
        graph.chain(down[above], down[i], pieces);
        continue;
      }
      for (std::size_t other = 0; other < links; ++other) {
        if (tree.parent[other] < 0) graph.chain(up[other], down[i], pieces);
      }
    }
    for (std::size_t i = 0; i < links; ++i) {
      const int vertex = topology.links[static_cast<std::size_t>(tree.up[i])].from;
      const auto rank = std::find(group.workers.begin(), group.workers.end(), vertex) - group.workers.begin();
      if (static_cast<std::size_t>(rank) == group.workers.size()) continue;
      for (int before : gates[static_cast<std::size_t>(rank)]) graph.add_wait(before, up[i]);
      after[static_cast<std::size_t>(rank)].push_back(down[i] + pieces - 1);
    }
  }
  if (inside.repeat > 0) graph.add_rounds({inside}, bytes, after);
}

void check_size(double sends) {
  if (sends > static_cast<double>(most_sends)) {
    throw Error(ErrorKind::input,
                fmt::format("a stepwise replay of {:.3g} messages is too long: leave --stepwise "
                            "out for the closed form, or take fewer ranks",
                            sends));
  }
}

}  // namespace

StepwiseResult replay_stepwise(const Topology& topology, Routes& routes, CollectiveKind kind,
                               CollectiveAlgorithm algorithm, const RankGroup& group, Bytes bytes,
                               const StepwiseOptions& options) {
  if (!has_algorithm(kind, algorithm)) {
    throw Error(ErrorKind::input, fmt::format("{} has no algorithm '{}'", name_of(kind), name_of(algorithm)));
  }
  FlowEngine engine(topology);
  const auto size = static_cast<double>(bytes.count());
  const int pieces = std::max(1, options.pieces), rings = std::max(1, options.rings);
  const double n = group.ranks;
  SendGraph graph(engine, routes, group);
  if (group.ranks > 1 && bytes.count() > 0) {
    const bool is_chain = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
    if (algorithm == CollectiveAlgorithm::tree) {
      check_size(4 * n * pieces * rings);
      std::vector<std::vector<std::vector<int>>> orders;
      for (std::size_t node = 0; node < group.by_node.size(); ++node)
        orders.push_back(orders_in_node(group, node, rings));
      for (const auto& nodes : {binary_tree(group.nodes), second_binary_tree(group.nodes)}) {
        for (std::size_t pair = 0; pair < static_cast<std::size_t>(rings); ++pair) {
          add_tree(graph, rank_tree(group, nodes, orders, pair), size / 2 / rings, pieces);
        }
      }
      graph.run();
    } else if (algorithm == CollectiveAlgorithm::in_network) {
      check_size(8 * n * pieces);
      add_in_network(graph, topology, routes, group, size, pieces);
      graph.run();
    } else if (const std::vector<Round> all = rounds(kind, algorithm, group); !all.empty()) {
      double sends = 0;
      for (const Round& round : all) sends += static_cast<double>(round.transfers.size()) * round.repeat;
      check_size(sends);
      std::vector<std::vector<int>> gates(static_cast<std::size_t>(group.ranks));
      graph.add_rounds(all, size, gates);
      graph.run();
    } else if (algorithm == CollectiveAlgorithm::direct) {
      check_size(n * n);
      for (const Transfer& each : transfers(kind, algorithm, group)) {
        graph.add_stream(each.from, each.to, size * each.share, 1);
      }
      graph.run();
    } else if (is_chain) {
      check_size(n * pieces * rings);
      for (std::vector<int>& order : ring_orders(group, rings)) {
        std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
        const bool is_reduce = kind == CollectiveKind::reduce;
        if (is_reduce) std::rotate(order.begin(), order.begin() + 1, order.end());
        if (is_reduce) std::reverse(order.begin(), order.end());  // the root first, its neighbour last
        add_chain(graph, order, is_reduce, size / rings, pieces);
      }
      graph.run();
    } else {
      const int steps = ring_steps(kind, group.ranks);
      check_size(n * steps * rings);
      run_rings(engine, routes, group, steps, size, rings);
    }
  }
  return {engine.now(), engine.bytes_by_link(), engine.started() - graph.heads()};
}

}  // namespace foretrain

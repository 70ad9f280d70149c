#include "sim/network/all_to_all_loads.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "sim/network/fabric_ways.hpp"

namespace foretrain {
namespace {

// Of counts of pairs between switches, and of what lies around switches: each.
constexpr std::size_t most_bytes = std::size_t{128} << 20;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

// How many of something there are, each with a probability of its own: a pair that takes a link with
// probability p adds p to the mean of the link's load and p(1 - p) to its variance.
struct Count {
  double sum = 0;      // of probabilities
  double squares = 0;  // of their squares
  void add(double pairs, double probability) {
    sum += pairs * probability;
    squares += pairs * probability * probability;
  }
};

// The longest latency of several workers' ways, and the longest of those on other nodes.
struct Longest {
  static constexpr double none = -std::numeric_limits<double>::infinity();
  double first = none, second = none;  // seconds
  std::size_t node = no_node;
  static constexpr std::size_t no_node = std::numeric_limits<std::size_t>::max();

  void add(double seconds, std::size_t of_node) {
    if (seconds > first || node == no_node) {
      if (node != of_node) second = first;
      first = seconds;
      node = of_node;
    } else if (node != of_node) {
      second = std::max(second, seconds);
    }
  }
  void add(const Longest& others) {
    if (others.node == no_node) return;
    add(others.first, others.node);
    add(others.second, no_node - 1);
  }
  // Of one way out and one way in, on two nodes.
  static double together(const Longest& out, const Longest& in) {
    if (out.node != in.node) return out.first + in.first;
    return std::max(out.first + in.second, out.second + in.first);
  }
};

// Workers with the same gates, in one direction: alike in all but the ways within their nodes.
struct WorkerClass {
  std::vector<NodeGate> gates;  // of the first; of the others without their links
  std::vector<int> ranks;
  std::vector<std::pair<std::size_t, int>> by_node;  // nodes of the group that have some, and how many
  std::vector<int> ends;                             // of each gate, the switch's place among all ends
};

struct Worker {
  std::size_t of_class = 0;
  std::size_t first_gate = 0;  // in lists of all gates of all workers
};

// One direction of all workers.
struct Side {
  std::vector<WorkerClass> classes;
  std::vector<Worker> workers;                // by rank of the group
  std::vector<std::vector<int>> links;        // of each gate of each worker
  std::vector<Count> own_node;                // of each: ways there would be if those within nodes left them
  std::vector<std::vector<Count>> of_class;   // of each gate of a class: ways by it, from all or to all
  std::vector<std::vector<Longest>> latency;  // of each gate of a class
};

class Counting {
 public:
  Counting(const Topology& topology, Routes& routes, const RankGroup& group)
      : topology_(topology),
        routes_(routes),
        fabric_(routes.fabric()),
        group_(group),
        is_hash_(topology.network.routes == RouteChoice::hash),
        is_first_(topology.network.routes == RouteChoice::first) {}

  std::optional<CountedLoads> count() {
    loads_.mean.resize(topology_.links.size());
    loads_.variance.resize(topology_.links.size());
    find_classes(out_, true);
    find_classes(in_, false);
    find_ends();
    const std::size_t counts = 2 * ends_.size() * likes_.size();
    if (counts * sizeof(Count) > most_bytes) return std::nullopt;
    if (2 * likes_.size() * fabric_.bytes_of_ball() > most_bytes) return std::nullopt;
    from_end_.resize(ends_.size() * likes_.size());
    to_end_.resize(ends_.size() * likes_.size());
    for (const int end : ends_) fabric_.settle(end);
    for (std::size_t c = 0; c < out_.classes.size(); ++c) count_from(c);
    add_gates(out_);
    add_gates(in_);
    add_fabric();
    add_within_nodes();
    merge_half_duplex();
    const double share = 1.0 / group_.ranks;
    for (double& mean : loads_.mean) mean *= share;
    for (double& variance : loads_.variance) variance = is_hash_ ? variance * share * share : 0;
    return std::move(loads_);
  }

 private:
  // A pair of gates that the ways from one class to another may go by: indices of both.
  using GatePair = std::pair<std::size_t, std::size_t>;

  void find_classes(Side& side, bool leaving) {
    std::map<std::vector<std::pair<int, int>>, std::size_t> index;  // by switches and lengths
    side.workers.resize(at(group_.ranks));
    std::vector<std::pair<int, int>> key;
    for (std::size_t node = 0; node < group_.by_node.size(); ++node) {
      for (const int rank : group_.by_node[node]) {
        std::vector<NodeGate> gates = routes_.gates(group_.workers[at(rank)], leaving);
        key.clear();
        for (const NodeGate& gate : gates) key.emplace_back(gate.outside, gate.length);
        const auto [found, is_new] = index.try_emplace(key, side.classes.size());
        const std::size_t own = found->second;
        side.workers[at(rank)] = {own, side.links.size()};
        if (is_new) {
          side.classes.emplace_back();
          side.of_class.emplace_back(gates.size());
          side.latency.emplace_back(gates.size());
        }
        for (std::size_t g = 0; g < gates.size(); ++g) {
          double latency = 0;
          for (const int link : gates[g].links) latency += topology_.links[at(link)].latency.in_seconds();
          side.latency[own][g].add(latency, node);
          side.links.push_back(std::move(gates[g].links));
        }
        WorkerClass& of_class = side.classes[own];
        if (is_new) of_class.gates = std::move(gates);
        of_class.ranks.push_back(rank);
        if (of_class.by_node.empty() || of_class.by_node.back().first != node) {
          of_class.by_node.emplace_back(node, 0);
        }
        ++of_class.by_node.back().second;
      }
    }
    side.own_node.resize(side.links.size());
  }

  // The switches at which ways begin and end, and which of them stand for each other: those with the same
  // neighbours, unless ways begin or end at a neighbour too.
  void find_ends() {
    std::map<int, int> place;
    for (Side* side : {&out_, &in_}) {
      for (WorkerClass& each : side->classes) {
        for (const NodeGate& gate : each.gates) {
          const auto [found, is_new] = place.try_emplace(gate.outside, static_cast<int>(ends_.size()));
          if (is_new) ends_.push_back(gate.outside);
          each.ends.push_back(found->second);
        }
      }
    }
    std::map<int, int> like_place;
    for (std::size_t e = 0; e < ends_.size(); ++e) {
      leaving_.push_back(fabric_.ports(ends_[e], true));
      arriving_.push_back(fabric_.ports(ends_[e], false));
      bool is_alone = false;
      for (const int link : leaving_[e]) is_alone |= place.contains(topology_.links[at(link)].to);
      for (const int link : arriving_[e]) is_alone |= place.contains(topology_.links[at(link)].from);
      const int key = is_alone ? -1 - ends_[e] : fabric_.twin_of(ends_[e]);
      const auto [found, is_new] = like_place.try_emplace(key, static_cast<int>(likes_.size()));
      if (is_new) likes_.emplace_back();
      likes_[at(found->second)].push_back(static_cast<int>(e));
      like_of_.push_back(found->second);
    }
    latency_before_.resize(ends_.size());
    latency_after_.resize(ends_.size());
  }

  // As ways are chosen: all pairs of gates of the least length; by hash all alike.
  void find_pairs(const WorkerClass& from, const WorkerClass& to) {
    pairs_.clear();
    int best = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < from.gates.size(); ++i) {
      for (std::size_t j = 0; j < to.gates.size(); ++j) {
        const int within = from.gates[i].length + to.gates[j].length;
        if (within > best) break;
        const int between = fabric_.distance(from.gates[i].outside, to.gates[j].outside);
        if (between < 0 || within + between > best) continue;
        if (within + between < best) pairs_.clear();
        best = within + between;
        pairs_.emplace_back(i, j);
      }
    }
    if (is_first_ && pairs_.size() > 1) pairs_.resize(1);
  }

  // All ways from the workers of one class.
  void count_from(std::size_t c) {
    const WorkerClass& from = out_.classes[c];
    const auto senders = static_cast<double>(from.ranks.size());
    own_pairs_.assign(in_.classes.size(), 0.0);
    for (const auto& [node, count] : from.by_node) {
      for (const int rank : group_.by_node[node]) own_pairs_[in_.workers[at(rank)].of_class] += count;
    }
    std::vector<Count> of_gate(from.gates.size());
    // The odds of each gate, by class that is sent to.
    std::vector<std::vector<double>> odds_out(in_.classes.size()), odds_in(in_.classes.size());
    for (std::size_t d = 0; d < in_.classes.size(); ++d) {
      const WorkerClass& to = in_.classes[d];
      const auto receivers = static_cast<double>(to.ranks.size());
      const double pairs = senders * receivers - own_pairs_[d];
      if (pairs <= 0) continue;
      find_pairs(from, to);
      if (pairs_.empty()) refuse(from, to);
      odds_out[d].resize(from.gates.size());
      odds_in[d].resize(to.gates.size());
      const double each = 1.0 / static_cast<double>(pairs_.size());
      for (const auto& [i, j] : pairs_) {
        odds_out[d][i] += each;
        odds_in[d][j] += each;
      }
      count_between(c, d, pairs);
      for (std::size_t i = 0; i < of_gate.size(); ++i) of_gate[i].add(receivers, odds_out[d][i]);
      for (std::size_t j = 0; j < odds_in[d].size(); ++j) in_.of_class[d][j].add(senders, odds_in[d][j]);
    }
    out_.of_class[c] = of_gate;
    for (const auto& [node, count] : from.by_node) {
      for (const int rank : group_.by_node[node]) take_off(in_, rank, odds_in, count);
      for (const int rank : group_.by_node[node]) {
        if (out_.workers[at(rank)].of_class != c) continue;
        for (const int other : group_.by_node[node]) {
          const std::vector<double>& odds = odds_out[in_.workers[at(other)].of_class];
          Count* const own = out_.own_node.data() + out_.workers[at(rank)].first_gate;
          for (std::size_t i = 0; i < odds.size(); ++i) own[i].add(1, odds[i]);
        }
      }
    }
  }

  // What a worker would have had from its own node.
  static void take_off(Side& side, int rank, const std::vector<std::vector<double>>& odds, int count) {
    const Worker& worker = side.workers[at(rank)];
    Count* const own = side.own_node.data() + worker.first_gate;
    const std::vector<double>& of_class = odds[worker.of_class];
    for (std::size_t j = 0; j < of_class.size(); ++j) own[j].add(count, of_class[j]);
  }

  // Between the switches that ways from one class to another begin and end at.
  void count_between(std::size_t c, std::size_t d, double pairs) {
    const WorkerClass &out = out_.classes[c], &in = in_.classes[d];
    std::sort(pairs_.begin(), pairs_.end(), [&](const GatePair& a, const GatePair& b) {
      return std::pair(out.ends[a.first], in.ends[a.second]) <
             std::pair(out.ends[b.first], in.ends[b.second]);
    });
    const double each = 1.0 / static_cast<double>(pairs_.size());
    for (std::size_t p = 0; p < pairs_.size();) {
      const int from = out.ends[pairs_[p].first], to = in.ends[pairs_[p].second];
      double odds = 0;
      for (; p < pairs_.size(); ++p) {
        const auto& [i, j] = pairs_[p];
        if (out.ends[i] != from || in.ends[j] != to) break;
        odds += each;
        const Longest &before = out_.latency[c][i], &after = in_.latency[d][j];
        if (from == to) lengthen(Longest::together(before, after));
        latency_before_[at(from)].add(before);
        latency_after_[at(to)].add(after);
      }
      if (from == to) continue;
      from_end_[at(from) * likes_.size() + at(like_of_[at(to)])].add(pairs, odds);
      to_end_[at(to) * likes_.size() + at(like_of_[at(from)])].add(pairs, odds);
    }
  }

  void lengthen(double seconds) {
    longest_ = std::max(longest_, seconds);
    loads_.longest_latency = Time::seconds(longest_);
  }

  void add(int link, const Count& ways, double part) {
    loads_.mean[at(link)] += part * ways.sum;
    loads_.variance[at(link)] += std::max(0.0, part * ways.sum - part * part * ways.squares);
  }

  void add_gates(const Side& side) {
    for (const Worker& worker : side.workers) {
      const std::vector<Count>& of_class = side.of_class[worker.of_class];
      for (std::size_t g = 0; g < of_class.size(); ++g) {
        const Count& own = side.own_node[worker.first_gate + g];
        const Count ways{of_class[g].sum - own.sum, of_class[g].squares - own.squares};
        if (ways.sum <= 0) continue;
        for (const int link : side.links[worker.first_gate + g]) add(link, ways, 1);
      }
    }
  }

  void add_fabric() {
    std::vector<int> place_leaving(topology_.links.size(), -1), place_arriving(topology_.links.size(), -1);
    for (std::size_t e = 0; e < ends_.size(); ++e) {
      for (std::size_t p = 0; p < leaving_[e].size(); ++p)
        place_leaving[at(leaving_[e][p])] = static_cast<int>(p);
      for (std::size_t p = 0; p < arriving_[e].size(); ++p)
        place_arriving[at(arriving_[e][p])] = static_cast<int>(p);
    }
    std::vector<double> reached(topology_.vertices.size());
    std::vector<FabricWays::Chance> chances;
    for (std::size_t a = 0; a < likes_.size(); ++a) {
      for (std::size_t b = 0; b < likes_.size(); ++b) {
        Count all;
        for (const int end : likes_[a]) {
          all.sum += from_end_[at(end) * likes_.size() + b].sum;
          all.squares += from_end_[at(end) * likes_.size() + b].squares;
        }
        if (all.sum <= 0) continue;
        const int from = ends_[at(likes_[a].front())];
        const int to = ends_[at(a == b ? likes_[b][1] : likes_[b].front())];
        chances.clear();
        fabric_.append_chances(from, to, is_first_, chances);
        for (const FabricWays::Chance& chance : chances) {
          const Link& link = topology_.links[at(chance.link)];
          reached[at(link.to)] = 0;
        }
        reached[at(from)] = 0;
        for (const FabricWays::Chance& chance : chances) {
          const Link& link = topology_.links[at(chance.link)];
          Time latency = link.latency;
          if (link.from == from) {
            const int place = place_leaving[at(chance.link)];
            for (const int end : likes_[a]) {
              const int own = leaving_[at(end)][at(place)];
              add(own, from_end_[at(end) * likes_.size() + b], chance.part);
              latency = std::max(latency, topology_.links[at(own)].latency);
            }
          } else if (link.to == to) {
            const int place = place_arriving[at(chance.link)];
            for (const int end : likes_[b]) {
              const int own = arriving_[at(end)][at(place)];
              add(own, to_end_[at(end) * likes_.size() + a], chance.part);
              latency = std::max(latency, topology_.links[at(own)].latency);
            }
          } else {
            add(chance.link, all, chance.part);
          }
          reached[at(link.to)] =
              std::max(reached[at(link.to)], reached[at(link.from)] + latency.in_seconds());
        }
        lengthen(reached[at(to)] + Longest::together(longest_of(likes_[a], latency_before_),
                                                     longest_of(likes_[b], latency_after_)));
      }
    }
  }

  static Longest longest_of(const std::vector<int>& ends, const std::vector<Longest>& latencies) {
    Longest longest;
    for (const int end : ends) longest.add(latencies[at(end)]);
    return longest;
  }

  void add_within_nodes() {
    for (const std::vector<int>& node : group_.by_node) {
      for (const int from : node) {
        for (const int to : node) {
          if (from == to) continue;
          Time latency;
          for (const int link : routes_.way(group_.workers[at(from)], group_.workers[at(to)])) {
            loads_.mean[at(link)] += 1;
            latency += topology_.links[at(link)].latency;
          }
          lengthen(latency.in_seconds());
        }
      }
    }
  }

  void merge_half_duplex() {
    for (std::size_t l = 0; l < topology_.links.size(); ++l) {
      const Link& link = topology_.links[l];
      if (!link.half_duplex || link.reverse < 0 || at(link.reverse) > l) continue;
      loads_.mean[at(link.reverse)] += std::exchange(loads_.mean[l], 0.0);
      loads_.variance[at(link.reverse)] += std::exchange(loads_.variance[l], 0.0);
    }
  }

  // By the search that finds no way, so that the error is the same.
  void refuse(const WorkerClass& from, const WorkerClass& to) {
    for (const int sender : from.ranks) {
      for (const int receiver : to.ranks) {
        const int a = group_.workers[at(sender)], b = group_.workers[at(receiver)];
        if (topology_.vertices[at(a)].node != topology_.vertices[at(b)].node) routes_.way(a, b);
      }
    }
  }

  const Topology& topology_;
  Routes& routes_;
  FabricWays& fabric_;
  const RankGroup& group_;
  bool is_hash_, is_first_;
  CountedLoads loads_;
  double longest_ = 0;
  Side out_, in_;
  std::vector<double> own_pairs_;  // by class that is sent to: pairs within nodes
  std::vector<GatePair> pairs_;
  std::vector<int> ends_, like_of_;
  std::vector<std::vector<int>> likes_;                  // ends that stand for each other
  std::vector<std::vector<int>> leaving_, arriving_;     // ports of each end
  std::vector<Count> from_end_, to_end_;                 // pairs between an end and all of a like
  std::vector<Longest> latency_before_, latency_after_;  // of ways out to an end, and in from it
};

}  // namespace

std::optional<CountedLoads> counted_all_to_all(const Topology& topology, Routes& routes,
                                               const RankGroup& group) {
  const bool is_in_nodes = std::all_of(group.workers.begin(), group.workers.end(),
                                       [&](int worker) { return topology.vertices[at(worker)].node >= 0; });
  if (!is_in_nodes) return std::nullopt;
  return Counting(topology, routes, group).count();
}

}  // namespace foretrain

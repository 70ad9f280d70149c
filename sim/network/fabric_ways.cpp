#include "sim/network/fabric_ways.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "sim/base/random.hpp"

namespace foretrain {
namespace {

constexpr std::uint16_t nowhere = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t most_bytes = std::size_t{128} << 20;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

FabricWays::FabricWays(const WayGraph& graph) : graph_(graph) {
  place_.assign(graph.vertices(), -1);
  for (std::size_t v = 0; v < graph.vertices(); ++v) {
    if (!graph.is_outside(static_cast<int>(v))) continue;
    place_[v] = static_cast<std::int32_t>(vertex_.size());
    vertex_.push_back(static_cast<std::int32_t>(v));
  }
  forward_.resize(vertex_.size());
  backward_.resize(vertex_.size());
  find_twins();
}

// Twins have the same ways to everything else: what lies around one lies around the other.
void FabricWays::find_twins() {
  using Neighbours = std::vector<std::pair<int, int>>;  // place and length of those it leads to; then of
                                                        // those that lead to it
  std::map<Neighbours, std::int32_t> first_of;
  twin_.resize(vertex_.size());
  for (std::size_t place = 0; place < vertex_.size(); ++place) {
    Neighbours all;
    for (const bool is_leaving : {true, false}) {
      const auto begin = static_cast<std::ptrdiff_t>(all.size());
      for (const WayLink& link :
           is_leaving ? graph_.leaving(vertex_[place]) : graph_.arriving(vertex_[place])) {
        if (place_[at(link.other)] >= 0) all.emplace_back(place_[at(link.other)], link.length);
      }
      std::sort(all.begin() + begin, all.end());
      all.emplace_back(-1, 0);
    }
    twin_[place] = first_of.try_emplace(std::move(all), static_cast<std::int32_t>(place)).first->second;
  }
}

std::uint16_t FabricWays::View::distance(int asked) const {
  return ball->distance[at(place(asked))];
}

bool FabricWays::is_small() const {
  return vertex_.size() * vertex_.size() * 2 * sizeof(std::uint16_t) <= most_bytes;
}

FabricWays::View FabricWays::view(int switch_place, bool forward) {
  const int twin = twin_[at(switch_place)];
  Ball& out = (forward ? forward_ : backward_)[at(twin)];
  if (out.distance.empty()) {
    out.distance.assign(vertex_.size(), nowhere);
    out.distance[at(twin)] = 0;
    out.rings.push_back({twin});
  }
  return {&out, switch_place, twin};
}

// Dijkstra over short whole lengths: a list for each distance.
void FabricWays::grow(Ball& ball, bool forward, int radius) const {
  while (ball.radius < radius) {
    if (ball.is_whole()) {
      ball.radius = radius;
      return;
    }
    const int here = ++ball.radius;
    for (std::size_t i = 0; i < ball.rings[at(here)].size(); ++i) {
      const int place = ball.rings[at(here)][i];
      if (ball.distance[at(place)] != here) continue;
      const int vertex = vertex_[at(place)];
      for (const WayLink& link : forward ? graph_.leaving(vertex) : graph_.arriving(vertex)) {
        const int other = place_[at(link.other)];
        if (other < 0) continue;
        const int reached = here + link.length;
        if (reached >= ball.distance[at(other)]) continue;
        ball.distance[at(other)] = static_cast<std::uint16_t>(reached);
        if (at(reached) >= ball.rings.size()) ball.rings.resize(at(reached) + 1);
        ball.rings[at(reached)].push_back(other);
      }
    }
  }
}

// Once both are settled to half of the best length so far, no way can be shorter, and the links in the middle
// of every shortest way are labelled.
int FabricWays::meet(const View& from, const View& to) const {
  constexpr int none = std::numeric_limits<int>::max(), stride = 3;
  for (;;) {
    const View& smaller = from.ball->rings.size() <= to.ball->rings.size() ? from : to;
    const View& larger = &smaller == &from ? to : from;
    int best = none;
    for (const auto& ring : smaller.ball->rings) {
      for (const int own : ring) {
        const int place = smaller.place(own), beyond = larger.distance(place);
        if (beyond != nowhere) best = std::min(best, smaller.distance(place) + beyond);
      }
    }
    const int half = best == none ? 0 : (best + 1) / 2;
    if (best != none && from.ball->radius >= half && to.ball->radius >= half) return best;
    if (best == none && from.ball->is_whole() && to.ball->is_whole()) return -1;
    const int radius = best == none ? std::min(from.ball->radius, to.ball->radius) + stride : half;
    grow(*from.ball, true, radius);
    grow(*to.ball, false, radius);
  }
}

// Of twins all pairs lie equally far apart, and from any other switch.
int FabricWays::distance(int from, int to) {
  if (from == to) return 0;
  const int a = place_[at(from)], b = place_[at(to)];
  if (const Ball& known = forward_[at(twin_[at(a)])]; known.is_settled) {
    const std::uint16_t length = view(a, true).distance(b);
    return length == nowhere ? -1 : length;
  }
  const auto key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(twin_[at(a)])) << 32) |
                   static_cast<std::uint32_t>(twin_[at(b)]);
  const auto [found, is_new] = distances_.try_emplace(key, -1);
  if (is_new) found->second = meet(view(a, true), view(b, false));
  return found->second;
}

// A place in the middle of a shortest way: half the length away, or the next on the way. By the hash: drawn
// until one fits, which is at once where the fabric is regular; else of all that fit.
int FabricWays::meeting(const View& from, const View& to, int length, std::uint64_t flow_hash,
                        bool first) const {
  auto fits = [&](int place, int d) { return from.distance(place) == d && d + to.distance(place) == length; };
  const int half = (length + 1) / 2;
  constexpr std::uint64_t draws = 4;
  const auto& rings = from.ball->rings;
  if (!first && !rings[at(half)].empty()) {
    const auto& ring = rings[at(half)];
    for (std::uint64_t draw = 0; draw < draws; ++draw) {
      const int place = from.place(ring[mixed_bits(~flow_hash + draw) % ring.size()]);
      if (fits(place, half)) return place;
    }
  }
  std::vector<int> all;
  for (int d = half; d < half + WayGraph::longest_link && at(d) < rings.size(); ++d) {
    for (const int own : rings[at(d)]) {
      if (const int place = from.place(own); fits(place, d)) all.push_back(place);
    }
    if (!all.empty()) break;
  }
  return all[first ? 0 : mixed_bits(~flow_hash + draws) % all.size()];
}

void FabricWays::find_fitting(const View& view, int place, bool back) {
  fitting_.clear();
  const int vertex = vertex_[at(place)], distance = view.distance(place);
  for (const WayLink& link : back ? graph_.arriving(vertex) : graph_.leaving(vertex)) {
    const int other = place_[at(link.other)];
    if (other >= 0 && view.distance(other) + link.length == distance) fitting_.push_back(&link);
  }
}

void FabricWays::append_way(int from, int to, std::uint64_t flow_hash, bool first, std::vector<int>& way) {
  if (from == to) return;
  const int length = distance(from, to);
  const View source = view(place_[at(from)], true);
  const View target = view(place_[at(to)], false);
  auto choice = [&](std::uint64_t fitting, std::uint64_t salt) {
    return first || fitting == 1 ? 0 : mixed_bits(flow_hash ^ salt) % fitting;
  };
  const int middle = meeting(source, target, length, flow_hash, first);
  auto walk = [&](const View& view, bool back) {
    const auto begin = static_cast<std::ptrdiff_t>(way.size());
    for (int place = middle; view.distance(place) != 0;) {
      find_fitting(view, place, back);
      const auto vertex = static_cast<std::uint64_t>(vertex_[at(place)]);
      const WayLink& taken = *fitting_[choice(fitting_.size(), vertex)];
      way.push_back(taken.link);
      place = place_[at(taken.other)];
    }
    if (back) std::reverse(way.begin() + begin, way.end());
  };
  walk(source, true);
  walk(target, false);
}

void FabricWays::settle(int from) {
  Ball& ball = *view(place_[at(from)], true).ball;
  grow(ball, true, nowhere);
  ball.is_settled = true;
}

void FabricWays::find_meetings(const View& from, const View& to, int length, bool first) {
  meetings_.clear();
  if (first) {
    meetings_.push_back(meeting(from, to, length, 0, true));
    return;
  }
  for (int d = (length + 1) / 2; meetings_.empty(); ++d) {
    auto ring = [](const View& view, int distance) -> const std::vector<std::int32_t>& {
      static const std::vector<std::int32_t> none;
      return at(distance) < view.ball->rings.size() ? view.ball->rings[at(distance)] : none;
    };
    const bool is_smaller = ring(from, d).size() <= ring(to, length - d).size();
    const View& looked = is_smaller ? from : to;
    for (const int own : ring(looked, is_smaller ? d : length - d)) {
      const int place = looked.place(own);
      if (from.distance(place) == d && d + to.distance(place) == length) meetings_.push_back(place);
    }
  }
}

// As append_way() draws: a place in the middle, all alike, and from there at each vertex a link, all alike.
void FabricWays::append_chances(int from, int to, bool first, std::vector<Chance>& chances) {
  if (from == to) return;
  const View source = view(place_[at(from)], true);
  const View target = view(place_[at(to)], false);
  grow(*source.ball, true, nowhere);
  grow(*target.ball, false, nowhere);
  const int length = source.distance(place_[at(to)]);
  if (length == nowhere) return;
  find_meetings(source, target, length, first);
  part_.resize(vertex_.size(), 0.0);
  auto walk = [&](const View& view, bool back) {
    const auto begin = static_cast<std::ptrdiff_t>(chances.size());
    const int farthest = view.distance(meetings_.front());
    if (levels_.size() <= at(farthest)) levels_.resize(at(farthest) + 1);
    levels_[at(farthest)] = meetings_;
    for (const int place : meetings_) part_[at(place)] = 1.0 / static_cast<double>(meetings_.size());
    for (int distance = farthest; distance >= 0; --distance) {
      for (const int place : levels_[at(distance)]) {
        const double part = std::exchange(part_[at(place)], 0.0);
        if (distance == 0) continue;
        find_fitting(view, place, back);
        if (first) fitting_.resize(1);
        const double of_each = part / static_cast<double>(fitting_.size());
        for (const WayLink* link : fitting_) {
          chances.push_back({link->link, of_each});
          const int other = place_[at(link->other)];
          if (part_[at(other)] == 0) levels_[at(distance - link->length)].push_back(other);
          part_[at(other)] += of_each;
        }
      }
      levels_[at(distance)].clear();
    }
    if (back) std::reverse(chances.begin() + begin, chances.end());
  };
  walk(source, true);
  walk(target, false);
}

int FabricWays::twin_of(int vertex) const {
  return vertex_[at(twin_[at(place_[at(vertex)])])];
}

std::vector<int> FabricWays::ports(int vertex, bool leaving) const {
  std::vector<std::pair<std::pair<int, int>, int>> all;  // as twins are compared, and the link
  for (const WayLink& link : leaving ? graph_.leaving(vertex) : graph_.arriving(vertex)) {
    const int other = place_[at(link.other)];
    if (other >= 0) all.push_back({{other, link.length}, link.link});
  }
  std::sort(all.begin(), all.end());
  std::vector<int> links;
  for (const auto& [where, link] : all) links.push_back(link);
  return links;
}

}  // namespace foretrain

#include "sim/network/even_ways.hpp"

#include <algorithm>

namespace foretrain {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

int place_of(const std::vector<int>& ports, int link) {
  return static_cast<int>(std::find(ports.begin(), ports.end(), link) - ports.begin());
}

}  // namespace

const std::vector<int>& EvenWays::ports(int vertex, bool leaving) {
  const auto [found, is_new] = (leaving ? leaving_ : arriving_).try_emplace(vertex);
  if (is_new) found->second = fabric_.ports(vertex, leaving);
  return found->second;
}

EvenWays::Ways EvenWays::all_ways(int from, int to, bool& is_direct) {
  chances_.clear();
  fabric_.append_chances(from, to, false, chances_);
  Ways ways;
  for (const FabricWays::Chance& chance : chances_) {
    const Link& link = topology_.links[at(chance.link)];
    if (link.from == from) {
      is_direct |= link.to == to;
      ways.first.push_back({place_of(ports(from, true), chance.link), from, link.to});
    } else if (link.to == to) {
      ways.last.push_back({place_of(ports(to, false), chance.link), link.from, to});
    } else {
      ways.middle.push_back({chance.link, link.from, link.to});
    }
  }
  return ways;
}

// A link from end to end is not one that twins of both have at its place.
const EvenWays::Ways& EvenWays::ways_between(int from, int to) {
  const auto key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(fabric_.twin_of(from))) << 32) |
                   static_cast<std::uint32_t>(fabric_.twin_of(to));
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  bool is_direct = false;
  Ways ways = all_ways(from, to, is_direct);
  if (!is_direct) return known_.emplace(key, std::move(ways)).first->second;
  direct_ = std::move(ways);
  return direct_;
}

void EvenWays::step(int link, int from, int to, std::span<const std::uint32_t> used) {
  const Label& before = labels_[at(from)];
  Label& label = labels_[at(to)];
  const std::uint64_t ways_there = used[at(link)];
  const std::uint64_t crowding = before.crowding + ways_there * ways_there;
  if (label.round == round_ &&
      (crowding > label.crowding || (crowding == label.crowding && link > label.link))) {
    return;
  }
  label = {crowding, link, from, round_};
}

std::uint64_t EvenWays::find(int from, int to, std::span<const std::uint32_t> used, std::vector<int>& way) {
  way.clear();
  if (from == to) return 0;
  const Ways& ways = ways_between(from, to);
  const std::vector<int>&leaving = ports(from, true), &arriving = ports(to, false);
  labels_.resize(topology_.vertices.size());
  ++round_;
  labels_[at(from)] = {0, -1, -1, round_};
  for (const Step& each : ways.first) {
    const int link = leaving[at(each.link)];
    step(link, from, topology_.links[at(link)].to, used);
  }
  for (const Step& each : ways.middle) step(each.link, each.from, each.to, used);
  for (const Step& each : ways.last) step(arriving[at(each.link)], each.from, to, used);
  for (int vertex = to; vertex != from; vertex = labels_[at(vertex)].from) {
    way.push_back(labels_[at(vertex)].link);
  }
  std::reverse(way.begin(), way.end());
  return labels_[at(to)].crowding;
}

}  // namespace foretrain

#include "sim/network/sharing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
// Levels that differ by less are the same: sums of hundreds of rates are rounded to about 1e-14.
constexpr double same_level = 1e-12;

bool differs(double a, double b) {
  if (a == b) return false;
  return !(std::abs(a - b) <= same_level * std::min(std::abs(a), std::abs(b)));
}

}  // namespace

std::vector<double> max_min_rates(std::span<const double> capacities,
                                  const std::vector<std::vector<int>>& routes) {
  const std::size_t links = capacities.size();
  std::vector<double> left(capacities.begin(), capacities.end());
  std::vector<int> open(links, 0);
  std::vector<std::vector<int>> on_link(links);
  for (std::size_t f = 0; f < routes.size(); ++f) {
    for (int link : routes[f]) {
      on_link[static_cast<std::size_t>(link)].push_back(static_cast<int>(f));
      ++open[static_cast<std::size_t>(link)];
    }
  }
  std::vector<double> rates(routes.size(), infinite);
  std::vector<char> is_fixed(routes.size(), 0);
  for (;;) {
    std::size_t tightest = links;
    double share = infinite;
    for (std::size_t l = 0; l < links; ++l) {
      if (open[l] > 0 && left[l] / open[l] < share) {
        share = left[l] / open[l];
        tightest = l;
      }
    }
    if (tightest == links) return rates;
    for (int flow : on_link[tightest]) {
      const auto f = static_cast<std::size_t>(flow);
      if (is_fixed[f]) continue;
      is_fixed[f] = 1;
      rates[f] = share;
      for (int link : routes[f]) {
        const auto l = static_cast<std::size_t>(link);
        left[l] = std::max(0.0, left[l] - share);
        --open[l];
      }
    }
  }
}

BandwidthSharing::BandwidthSharing(std::span<const double> capacities)
    : capacity_(capacities.begin(), capacities.end()),
      level_(capacities.size(), infinite),
      on_link_(capacities.size()),
      is_waiting_(capacities.size(), 0) {
  for (double capacity : capacity_) {
    if (!(capacity > 0)) throw Error(ErrorKind::input, "a link has no bandwidth: give it one above zero");
  }
}

int BandwidthSharing::allocate_slots(int hops) {
  const auto size = static_cast<std::size_t>(hops);
  if (size < free_slots_.size() && !free_slots_[size].empty()) {
    const int first = free_slots_[size].back();
    free_slots_[size].pop_back();
    return first;
  }
  const auto first = static_cast<int>(slots_.size());
  slots_.resize(slots_.size() + size);
  return first;
}

void BandwidthSharing::mark_link(int link) {
  const auto l = static_cast<std::size_t>(link);
  if (is_waiting_[l]) return;
  is_waiting_[l] = 1;
  waiting_.push_back(link);
}

int BandwidthSharing::add(std::span<const int> route) {
  int id = 0;
  if (free_flows_.empty()) {
    id = static_cast<int>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_flows_.back();
    free_flows_.pop_back();
  }
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  flow.hops = static_cast<int>(route.size());
  flow.first_slot = allocate_slots(flow.hops);
  flow.rate = 0;
  for (int hop = 0; hop < flow.hops; ++hop) {
    const int link = route[static_cast<std::size_t>(hop)];
    std::vector<Entry>& entries = on_link_[static_cast<std::size_t>(link)];
    slots_[static_cast<std::size_t>(flow.first_slot + hop)] = {link, static_cast<int>(entries.size())};
    entries.push_back({id, hop});
    mark_link(link);
  }
  find_lowest(flow);
  if (!flow.is_marked) {
    flow.is_marked = true;
    changed_.push_back(id);
  }
  ++active_;
  return id;
}

void BandwidthSharing::remove(int id) {
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  for (int hop = 0; hop < flow.hops; ++hop) {
    const Slot slot = slots_[static_cast<std::size_t>(flow.first_slot + hop)];
    std::vector<Entry>& entries = on_link_[static_cast<std::size_t>(slot.link)];
    const Entry last = entries.back();
    entries[static_cast<std::size_t>(slot.position)] = last;
    const int moved = flows_[static_cast<std::size_t>(last.flow)].first_slot + last.hop;
    slots_[static_cast<std::size_t>(moved)].position = slot.position;
    entries.pop_back();
    mark_link(slot.link);
  }
  const auto size = static_cast<std::size_t>(flow.hops);
  if (size >= free_slots_.size()) free_slots_.resize(size + 1);
  free_slots_[size].push_back(flow.first_slot);
  flow.hops = 0;
  flow.rate = 0;
  free_flows_.push_back(id);
  --active_;
}

void BandwidthSharing::set_capacity(int link, double capacity) {
  if (!(capacity > 0)) throw Error(ErrorKind::input, "a link has no bandwidth: give it one above zero");
  capacity_[static_cast<std::size_t>(link)] = capacity;
  mark_link(link);
}

void BandwidthSharing::find_lowest(Flow& flow) const {
  double lowest = infinite, second = infinite;
  int at = -1;
  const Slot* slot = slots_.data() + flow.first_slot;
  for (int hop = 0; hop < flow.hops; ++hop) {
    const double level = level_[static_cast<std::size_t>(slot[hop].link)];
    if (level < lowest) {
      second = lowest;
      lowest = level;
      at = hop;
    } else if (level < second) {
      second = level;
    }
  }
  flow.lowest = lowest;
  flow.second = second;
  flow.lowest_hop = at;
}

// Raises the water from an equal share: flows limited below it give what they leave to the others.
double BandwidthSharing::find_level(int link) {
  const std::vector<Entry>& entries = on_link_[static_cast<std::size_t>(link)];
  ++levels_found_;
  if (entries.empty()) return infinite;
  const double capacity = capacity_[static_cast<std::size_t>(link)];
  limits_.resize(entries.size());
  double total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Flow& flow = flows_[static_cast<std::size_t>(entries[i].flow)];
    limits_[i] = flow.lowest_hop == entries[i].hop ? flow.second : flow.lowest;
    total += limits_[i];
  }
  if (total <= capacity * (1 + same_level)) return infinite;
  std::size_t open = entries.size();
  double left = capacity;
  double level = left / static_cast<double>(open);
  for (;;) {
    std::size_t kept = 0;
    double given = 0;
    for (std::size_t i = 0; i < open; ++i) {
      const double limit = limits_[i];
      if (limit < level) {
        given += limit;
      } else {
        limits_[kept++] = limit;
      }
    }
    if (kept == open || kept == 0) return level;
    left -= given;
    open = kept;
    level = left / static_cast<double>(open);
  }
}

void BandwidthSharing::apply_level(int link, double level) {
  level_[static_cast<std::size_t>(link)] = level;
  for (const Entry& entry : on_link_[static_cast<std::size_t>(link)]) {
    Flow& flow = flows_[static_cast<std::size_t>(entry.flow)];
    const Flow before = flow;
    find_lowest(flow);
    if (flow.lowest == before.lowest && flow.second == before.second &&
        flow.lowest_hop == before.lowest_hop) {
      continue;
    }
    if (!flow.is_marked && flow.lowest != before.lowest) {
      flow.is_marked = true;
      changed_.push_back(entry.flow);
    }
    const Slot* slot = slots_.data() + flow.first_slot;
    for (int hop = 0; hop < flow.hops; ++hop) {
      if (hop == entry.hop) continue;
      const double old_limit = before.lowest_hop == hop ? before.second : before.lowest;
      const double new_limit = flow.lowest_hop == hop ? flow.second : flow.lowest;
      if (!differs(old_limit, new_limit)) continue;
      // A limit above the other link's level, before and after, is none.
      const double other = level_[static_cast<std::size_t>(slot[hop].link)];
      if (old_limit > other && new_limit > other) continue;
      mark_link(slot[hop].link);
    }
  }
}

std::span<const int> BandwidthSharing::solve() {
  while (next_waiting_ < waiting_.size()) {
    const int link = waiting_[next_waiting_++];
    is_waiting_[static_cast<std::size_t>(link)] = 0;
    const double level = find_level(link);
    if (differs(level, level_[static_cast<std::size_t>(link)])) apply_level(link, level);
  }
  waiting_.clear();
  next_waiting_ = 0;
  result_.clear();
  for (int id : changed_) {
    Flow& flow = flows_[static_cast<std::size_t>(id)];
    flow.is_marked = false;
    if (flow.hops == 0 || flow.rate == flow.lowest) continue;
    flow.rate = flow.lowest;
    result_.push_back(id);
  }
  changed_.clear();
  return result_;
}

}  // namespace foretrain

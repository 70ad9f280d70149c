#include "sim/network/sharing.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
// Levels that differ by less are the same: sums of hundreds of rates are rounded to about 1e-14.
constexpr double same_level = 1e-12;

// Whether a lies below b by more than rounding.
bool is_below(double a, double b) {
  return a < b * (1 - same_level);
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
    : level_(capacities.size(), infinite), links_(capacities.size()), entries_(capacities.size()) {
  for (std::size_t l = 0; l < capacities.size(); ++l) {
    if (!(capacities[l] > 0))
      throw Error(ErrorKind::input, "a link has no bandwidth: give it one above zero");
    links_[l].capacity = capacities[l];
  }
}

// Whether flows that are limited elsewhere alone would fill it.
bool BandwidthSharing::is_overfull(const Link& link) {
  return link.limited > link.capacity * (1 + same_level);
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

void BandwidthSharing::wait_for_level(int link) {
  Link& here = at(link);
  if (here.is_waiting) return;
  here.is_waiting = true;
  double order = level(link);
  if (here.open == 0)
    order = here.capacity / static_cast<double>(std::max<std::size_t>(1, entries_at(link).size()));
  if (!is_solving_) {
    first_.emplace_back(order, link);
    return;
  }
  later_.emplace_back(order, link);
  std::push_heap(later_.begin(), later_.end(), std::greater<>());
}

// The rates of flows that are limited elsewhere changed, of one of them to `rate`: of no matter while the
// link is not full.
void BandwidthSharing::limited_changed(int link, double difference, double rate) {
  Link& here = at(link);
  here.limited += difference;
  here.highest = std::max(here.highest, rate);
  if (!here.is_waiting && (here.open > 0 || is_overfull(here))) wait_for_level(link);
}

void BandwidthSharing::set_level(int link, double level) {
  level_[static_cast<std::size_t>(link)] = level;
  Link& here = at(link);
  if (here.is_changed) return;
  here.is_changed = true;
  changed_links_.push_back(link);
}

void BandwidthSharing::mark_flow(int id) {
  Flow& flow = flow_at(id);
  if (flow.is_marked) return;
  flow.is_marked = true;
  changed_flows_.push_back(id);
}

void BandwidthSharing::swap_entries(int link, std::size_t a, std::size_t b) {
  if (a == b) return;
  std::vector<Entry>& entries = entries_at(link);
  std::swap(entries[a], entries[b]);
  slots_[static_cast<std::size_t>(entries[a].slot)].position = static_cast<int>(a);
  slots_[static_cast<std::size_t>(entries[b].slot)].position = static_cast<int>(b);
}

void BandwidthSharing::open_entry(int link, std::size_t position) {
  swap_entries(link, position, static_cast<std::size_t>(at(link).open++));
}

void BandwidthSharing::close_entry(int link, std::size_t position) {
  swap_entries(link, position, static_cast<std::size_t>(--at(link).open));
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
  Flow& flow = flow_at(id);
  flow.hops = static_cast<int>(route.size());
  flow.first_slot = allocate_slots(flow.hops);
  // Its bottleneck is the lowest full link of its way; where none is full, the one with least room.
  int lowest = route.front(), least = -1;
  double room = infinite;
  for (int link : route) {
    if (level(link) < level(lowest)) lowest = link;
    const double left = at(link).capacity - at(link).limited;
    if (least < 0 || left < room) {
      least = link;
      room = left;
    }
  }
  if (level(lowest) == infinite) {
    lowest = least;
    set_level(lowest, std::max(room, at(lowest).capacity * same_level));
  }
  flow.bottleneck = lowest;
  for (int hop = 0; hop < flow.hops; ++hop) {
    const int link = route[static_cast<std::size_t>(hop)];
    std::vector<Entry>& entries = entries_at(link);
    const int slot = flow.first_slot + hop;
    slots_[static_cast<std::size_t>(slot)] = {link, static_cast<int>(entries.size())};
    if (flow.hops != 2) ++at(link).long_ways;
    entries.push_back({id, slot, flow.hops == 2 ? route[static_cast<std::size_t>(1 - hop)] : -1});
    if (link == lowest) {
      open_entry(link, entries.size() - 1);
      wait_for_level(link);
    } else {
      limited_changed(link, level(lowest), level(lowest));
    }
  }
  mark_flow(id);
  ++active_;
  return id;
}

void BandwidthSharing::remove(int id) {
  Flow& flow = flow_at(id);
  const double rate = level(flow.bottleneck);
  for (int hop = 0; hop < flow.hops; ++hop) {
    const Slot slot = slots_[static_cast<std::size_t>(flow.first_slot + hop)];
    Link& here = at(slot.link);
    std::vector<Entry>& entries = entries_at(slot.link);
    if (flow.hops != 2) --here.long_ways;
    auto position = static_cast<std::size_t>(slot.position);
    const bool is_open = slot.position < here.open;
    if (is_open) {
      close_entry(slot.link, position);
      position = static_cast<std::size_t>(here.open);
    }
    swap_entries(slot.link, position, entries.size() - 1);
    entries.pop_back();
    if (!is_open) {
      here.limited = entries.empty() ? 0 : here.limited - rate;
    } else if (here.open == 0) {
      set_level(slot.link, infinite);
    }
    if (here.open > 0 || is_overfull(here)) wait_for_level(slot.link);
  }
  const auto size = static_cast<std::size_t>(flow.hops);
  if (size >= free_slots_.size()) free_slots_.resize(size + 1);
  free_slots_[size].push_back(flow.first_slot);
  flow.hops = 0;
  free_flows_.push_back(id);
  --active_;
}

void BandwidthSharing::set_capacity(int link, double capacity) {
  if (!(capacity > 0)) throw Error(ErrorKind::input, "a link has no bandwidth: give it one above zero");
  at(link).capacity = capacity;
  wait_for_level(link);
}

// The lowest level of a flow's way but for the link of the entry, and where.
double BandwidthSharing::lowest_other(const Entry& entry, int* link) const {
  if (entry.other >= 0) {
    if (link != nullptr) *link = entry.other;
    return level(entry.other);
  }
  const Flow& flow = flows_[static_cast<std::size_t>(entry.flow)];
  double lowest = infinite;
  for (int slot = flow.first_slot; slot < flow.first_slot + flow.hops; ++slot) {
    const int each = slots_[static_cast<std::size_t>(slot)].link;
    if (slot == entry.slot || !(level(each) < lowest)) continue;
    lowest = level(each);
    if (link != nullptr) *link = each;
  }
  return lowest;
}

// The rate of a flow that is limited elsewhere.
double BandwidthSharing::rate_elsewhere(const Entry& entry) const {
  return level(entry.other >= 0 ? entry.other : bottleneck(entry.flow));
}

// Sums up the rates of the flows that are limited elsewhere, four at once: each addition waits for the one
// before.
void BandwidthSharing::sum_limited(int link) {
  Link& here = at(link);
  const std::vector<Entry>& entries = entries_at(link);
  const double* levels = level_.data();
  double sum[4] = {}, highest[2] = {};
  std::size_t i = static_cast<std::size_t>(here.open);
  if (here.long_ways == 0) {
    for (; i + 4 <= entries.size(); i += 4) {
      const double a = levels[entries[i].other], b = levels[entries[i + 1].other],
                   c = levels[entries[i + 2].other], d = levels[entries[i + 3].other];
      sum[0] += a, sum[1] += b, sum[2] += c, sum[3] += d;
      highest[0] = std::max(highest[0], std::max(a, b));
      highest[1] = std::max(highest[1], std::max(c, d));
    }
  }
  for (; i < entries.size(); ++i) {
    const double rate = rate_elsewhere(entries[i]);
    sum[0] += rate;
    highest[0] = std::max(highest[0], rate);
  }
  here.limited = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  here.highest = std::max(highest[0], highest[1]);
  here.summed = 0;
}

// The lowest level on the other links of the flows that are open here.
double BandwidthSharing::lowest_of_open(int link) const {
  const Link& here = links_[static_cast<std::size_t>(link)];
  const Entry* entries = entries_[static_cast<std::size_t>(link)].data();
  const double* levels = level_.data();
  double lowest[4] = {infinite, infinite, infinite, infinite};
  const auto open = static_cast<std::size_t>(here.open);
  std::size_t i = 0;
  if (here.long_ways == 0) {
    for (; i + 4 <= open; i += 4) {
      lowest[0] = std::min(lowest[0], std::min(levels[entries[i].other], levels[entries[i + 1].other]));
      lowest[1] = std::min(lowest[1], std::min(levels[entries[i + 2].other], levels[entries[i + 3].other]));
    }
  }
  for (; i < open; ++i) lowest[0] = std::min(lowest[0], lowest_other(entries[i]));
  return *std::min_element(lowest, lowest + 4);
}

// The level that solves the link's equation, and whether it makes any flow change its bottleneck. What is
// limited elsewhere is kept up to date by differences, and summed up anew before rounding counts.
std::pair<double, bool> BandwidthSharing::find_level(int link) {
  Link& here = at(link);
  ++levels_found_;
  constexpr int often = 32;
  if (++here.summed >= often || here.open == 0) sum_limited(link);
  if (here.open == 0) {
    if (!is_overfull(here)) return {infinite, false};
    return {raise_water(link), true};
  }
  auto level_now = [&] { return (here.capacity - here.limited) / here.open; };
  double level = level_now();
  if (here.summed > 0 && !(level > here.highest)) {
    sum_limited(link);
    level = level_now();
  }
  if (!(level > 0) || is_below(level, here.highest) || is_below(lowest_of_open(link), level)) {
    return {raise_water(link), true};
  }
  return {level, false};
}

// Raises the water from an equal share: flows limited below it give what they leave to the others.
double BandwidthSharing::raise_water(int link) {
  const Link& here = at(link);
  const std::vector<Entry>& entries = entries_at(link);
  limits_.resize(entries.size());
  double total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    limits_[i] = i < static_cast<std::size_t>(here.open) ? lowest_other(entry) : rate_elsewhere(entry);
    total += limits_[i];
  }
  if (total <= here.capacity * (1 + same_level)) return infinite;
  std::size_t open = entries.size();
  double left = here.capacity;
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

// Tells the other links of the flows that are open here by how much their rate changed.
void BandwidthSharing::scatter(int link, double difference) {
  const Entry* first = entries_at(link).data();
  const double rate = level(link);
  for (const Entry& entry : std::span(first, static_cast<std::size_t>(at(link).open))) {
    if (entry.other >= 0) {
      Link& other = at(entry.other);
      other.limited += difference;
      other.highest = std::max(other.highest, rate);
      if (!other.is_waiting && (other.open > 0 || is_overfull(other))) wait_for_level(entry.other);
      continue;
    }
    const Flow& flow = flow_at(entry.flow);
    for (int slot = flow.first_slot; slot < flow.first_slot + flow.hops; ++slot) {
      if (slot != entry.slot) limited_changed(slots_[static_cast<std::size_t>(slot)].link, difference, rate);
    }
  }
}

// Makes `to` the bottleneck of a flow. The link whose level is being applied needs no new one.
void BandwidthSharing::move_flow(int id, int to, double rate_before, int solved) {
  Flow& flow = flow_at(id);
  const int from = flow.bottleneck;
  const double rate = level(to);
  for (int slot = flow.first_slot; slot < flow.first_slot + flow.hops; ++slot) {
    const Slot each = slots_[static_cast<std::size_t>(slot)];
    Link& here = at(each.link);
    const auto position = static_cast<std::size_t>(each.position);
    if (each.link == from) {
      close_entry(each.link, position);
      here.limited += rate;
      here.highest = std::max(here.highest, rate);
      if (from != solved) wait_for_level(from);
    } else if (each.link == to) {
      open_entry(each.link, position);
      here.limited -= rate_before;
      if (to != solved) wait_for_level(to);
    } else {
      limited_changed(each.link, rate - rate_before, rate);
    }
  }
  flow.bottleneck = to;
  mark_flow(id);
}

void BandwidthSharing::change_bottlenecks(int link, double level_now) {
  Link& here = at(link);
  const double before = level(link);
  moves_.clear();
  const std::vector<Entry>& entries = entries_at(link);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (i < static_cast<std::size_t>(here.open)) {
      int other = -1;
      if (is_below(lowest_other(entry, &other), level_now)) moves_.emplace_back(entry.flow, other);
    } else if (is_below(level_now, rate_elsewhere(entry))) {
      moves_.emplace_back(entry.flow, link);
    }
  }
  set_level(link, level_now);
  // Those that leave take their new rate elsewhere; those that stay have the new level; then the new ones.
  for (const auto& [flow, to] : moves_) {
    if (to != link) move_flow(flow, to, before, link);
  }
  if (here.open > 0 && level_now != before) scatter(link, level_now - before);
  for (const auto& [flow, to] : moves_) {
    if (to == link) move_flow(flow, to, level(bottleneck(flow)), link);
  }
}

// The lowest of those that wait, -1 where none does.
int BandwidthSharing::next_waiting() {
  const bool has_first = next_first_ < first_.size();
  if (!has_first && later_.empty()) return -1;
  int link = -1;
  if (has_first && (later_.empty() || first_[next_first_] <= later_.front())) {
    link = first_[next_first_++].second;
  } else {
    std::pop_heap(later_.begin(), later_.end(), std::greater<>());
    link = later_.back().second;
    later_.pop_back();
  }
  at(link).is_waiting = false;
  return link;
}

BandwidthSharing::Changes BandwidthSharing::solve() {
  auto is_lower = [](const Waiting& a, const Waiting& b) { return a.first < b.first; };
  if (!std::is_sorted(first_.begin(), first_.end(), is_lower)) std::sort(first_.begin(), first_.end());
  is_solving_ = true;
  for (int link = next_waiting(); link >= 0; link = next_waiting()) {
    const auto [found, has_moves] = find_level(link);
    const double before = level(link);
    if (has_moves) {
      change_bottlenecks(link, found);
    } else if (found != before && (is_below(found, before) || is_below(before, found))) {
      set_level(link, found);
      scatter(link, found - before);
    }
  }
  is_solving_ = false;
  first_.clear();
  next_first_ = 0;
  for (int link : changed_links_) at(link).is_changed = false;
  result_links_.swap(changed_links_);
  changed_links_.clear();
  result_flows_.clear();
  for (int id : changed_flows_) {
    Flow& flow = flow_at(id);
    flow.is_marked = false;
    if (flow.hops > 0) result_flows_.push_back(id);
  }
  changed_flows_.clear();
  return {result_links_, result_flows_};
}

}  // namespace foretrain

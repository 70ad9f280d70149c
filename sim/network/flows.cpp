#include "sim/network/flows.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

constexpr double picoseconds_a_second = 1e12;

// A heap of four children a node whose items know their place: `less` orders, `placed` is told each new
// place.
template <typename Item, typename Less, typename Placed>
void sift_up(std::vector<Item>& heap, std::size_t at, const Less& less, const Placed& placed) {
  const Item item = heap[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / 4;
    if (!less(item, heap[parent])) break;
    heap[at] = heap[parent];
    placed(heap[at], at);
    at = parent;
  }
  heap[at] = item;
  placed(item, at);
}

template <typename Item, typename Less, typename Placed>
void sift_down(std::vector<Item>& heap, std::size_t at, const Less& less, const Placed& placed) {
  const Item item = heap[at];
  for (;;) {
    const std::size_t first = at * 4 + 1;
    if (first >= heap.size()) break;
    std::size_t least = first;
    const std::size_t end = std::min(first + 4, heap.size());
    for (std::size_t child = first + 1; child < end; ++child) {
      if (less(heap[child], heap[least])) least = child;
    }
    if (!less(heap[least], item)) break;
    heap[at] = heap[least];
    placed(heap[at], at);
    at = least;
  }
  heap[at] = item;
  placed(item, at);
}

constexpr auto earlier = [](const auto& a, const auto& b) { return a.finish < b.finish; };
constexpr auto smaller = [](const auto& a, const auto& b) { return a.first < b.first; };

std::vector<double> capacities_of(const Topology& topology) {
  std::vector<double> all;
  all.reserve(topology.links.size());
  for (const Link& link : topology.links) all.push_back(link.payload_rate());
  return all;
}

struct Later {
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }
};

Time after(Time now, double bytes, double rate) {
  const double wait = bytes / rate * picoseconds_a_second;
  if (!(wait < 9e18)) return now + Time::seconds(bytes / rate);  // an error with advice
  return now + Time(std::llround(wait));
}

}  // namespace

FlowEngine::FlowEngine(const Topology& topology)
    : sharing_(capacities_of(topology)), bottlenecks_(topology.links.size()) {
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    const Link& link = topology.links[l];
    if (link.half_duplex && link.reverse < static_cast<int>(l))
      shared_.emplace(static_cast<int>(l), link.reverse);
  }
}
FlowEngine::FlowEngine(std::span<const double> capacities)
    : sharing_(capacities), bottlenecks_(capacities.size()) {}

int FlowEngine::add_route(std::span<const int> links, Time latency) {
  routes_.push_back({links_.size(), static_cast<int>(links.size()), latency, 0});
  links_.insert(links_.end(), links.begin(), links.end());
  if (!shared_.empty()) {
    for (std::size_t i = routes_.back().first; i < links_.size(); ++i) {
      const auto same = shared_.find(links_[i]);
      if (same != shared_.end()) links_[i] = same->second;
    }
  }
  return static_cast<int>(routes_.size()) - 1;
}

void FlowEngine::start(int route, double bytes, std::uint64_t tag) {
  Route& way = routes_[static_cast<std::size_t>(route)];
  way.bytes += bytes;
  const Delayed flow{now_ + way.latency, sequence_++, route, bytes, tag};
  if (way.latency == Time()) return move(flow);
  if (waiting_.empty() || waiting_.back().time <= flow.time) {
    waiting_.push_back(flow);
  } else {
    delayed_.push_back(flow);
    std::push_heap(delayed_.begin(), delayed_.end(), Later());
  }
}

void FlowEngine::move(const Delayed& flow) {
  const Route& way = routes_[static_cast<std::size_t>(flow.route)];
  if (way.hops == 0 || flow.bytes <= 0) {
    through_.emplace_back(flow.sequence, flow.tag);
    return;
  }
  const int id = sharing_.add({links_.data() + way.first, static_cast<std::size_t>(way.hops)});
  if (static_cast<std::size_t>(id) >= moving_.size()) moving_.resize(static_cast<std::size_t>(id) + 1);
  moving_[static_cast<std::size_t>(id)] = {flow.bytes, flow.sequence, flow.tag, -1, -1};
  is_current_ = false;
}

void FlowEngine::set_capacity(int link, double capacity) {
  sharing_.set_capacity(link, capacity);
  is_current_ = false;
}

void FlowEngine::bring_to_now(Bottleneck& link) {
  if (!link.flows.empty()) {
    link.volume += link.rate * (static_cast<double>((now_ - link.since).count()) / picoseconds_a_second);
  } else {
    link.volume = 0;  // begins anew, so that sums of volumes stay short
  }
  link.since = now_;
}

Time FlowEngine::first_finish(const Bottleneck& link) const {
  if (link.flows.empty()) return Time::max();
  return after(link.since, std::max(0.0, link.flows.front().first - link.volume), link.rate);
}

void FlowEngine::insert(Bottleneck& link, int id) {
  link.flows.emplace_back(moving_[static_cast<std::size_t>(id)].at, id);
  sift_up(link.flows, link.flows.size() - 1, smaller, [this](const auto& item, std::size_t at) {
    moving_[static_cast<std::size_t>(item.second)].place = static_cast<int>(at);
  });
}

void FlowEngine::erase(Bottleneck& link, int id) {
  auto placed = [this](const auto& item, std::size_t at) {
    moving_[static_cast<std::size_t>(item.second)].place = static_cast<int>(at);
  };
  const auto at = static_cast<std::size_t>(moving_[static_cast<std::size_t>(id)].place);
  const auto last = link.flows.back();
  link.flows.pop_back();
  if (at == link.flows.size()) return;
  const bool is_smaller = last.first < link.flows[at].first;
  link.flows[at] = last;
  if (is_smaller) {
    sift_up(link.flows, at, smaller, placed);
  } else {
    sift_down(link.flows, at, smaller, placed);
  }
}

void FlowEngine::touch(int link) {
  Bottleneck& here = bottlenecks_[static_cast<std::size_t>(link)];
  if (here.is_touched) return;
  here.is_touched = true;
  touched_.push_back(link);
  bring_to_now(here);
}

// Books what has moved at the old rates, gives flows to their new bottlenecks and finds when the first of
// each is through at the new rates.
void FlowEngine::update() {
  if (is_current_) return;
  is_current_ = true;
  const BandwidthSharing::Changes changes = sharing_.solve();
  for (int link : changes.levels) touch(link);
  for (int id : changes.flows) {
    Moving& flow = moving_[static_cast<std::size_t>(id)];
    const int bottleneck = sharing_.bottleneck(id);
    if (bottleneck == flow.bottleneck) continue;
    touch(bottleneck);
    if (flow.bottleneck >= 0) {
      touch(flow.bottleneck);
      Bottleneck& old = bottlenecks_[static_cast<std::size_t>(flow.bottleneck)];
      flow.at = std::max(0.0, flow.at - old.volume);
      erase(old, id);
    }
    Bottleneck& link = bottlenecks_[static_cast<std::size_t>(bottleneck)];
    flow.bottleneck = bottleneck;
    flow.at += link.volume;
    insert(link, id);
  }
  for (int link : touched_) {
    Bottleneck& here = bottlenecks_[static_cast<std::size_t>(link)];
    here.is_touched = false;
    here.rate = sharing_.level(link);
    place_in_heap(link, first_finish(here));
  }
  touched_.clear();
}

Time FlowEngine::next() {
  if (!through_.empty()) return now_;
  update();
  Time time = heap_.empty() ? Time::max() : heap_.front().finish;
  if (!waiting_.empty()) time = std::min(time, waiting_.front().time);
  if (!delayed_.empty()) time = std::min(time, delayed_.front().time);
  return time;
}

void FlowEngine::advance_to(Time time, std::vector<std::uint64_t>& through) {
  update();
  now_ = time;
  while (!heap_.empty() && heap_.front().finish <= time) {
    const int at = heap_.front().link;
    Bottleneck& link = bottlenecks_[static_cast<std::size_t>(at)];
    Time finish = link.finish;
    while (finish <= time) {
      const int id = link.flows.front().second;
      const Moving& flow = moving_[static_cast<std::size_t>(id)];
      through_.emplace_back(flow.sequence, flow.tag);
      erase(link, id);
      sharing_.remove(id);
      finish = first_finish(link);
    }
    place_in_heap(at, finish);
    is_current_ = false;
  }
  while (!waiting_.empty() && waiting_.front().time <= time) {
    const Delayed flow = waiting_.front();
    waiting_.pop_front();
    move(flow);
  }
  while (!delayed_.empty() && delayed_.front().time <= time) {
    std::pop_heap(delayed_.begin(), delayed_.end(), Later());
    const Delayed flow = delayed_.back();
    delayed_.pop_back();
    move(flow);
  }
  std::sort(through_.begin(), through_.end());
  for (const auto& [sequence, tag] : through_) through.push_back(tag);
  through_.clear();
}

bool FlowEngine::advance(std::vector<std::uint64_t>& through) {
  const std::size_t before = through.size();
  while (through.size() == before) {
    const Time time = next();
    if (time == Time::max()) return false;
    advance_to(time, through);
  }
  return true;
}

std::vector<double> FlowEngine::bytes_by_link() const {
  std::vector<double> bytes;
  for (const Route& route : routes_) {
    for (int hop = 0; hop < route.hops; ++hop) {
      const auto link = static_cast<std::size_t>(links_[route.first + static_cast<std::size_t>(hop)]);
      if (link >= bytes.size()) bytes.resize(link + 1, 0);
      bytes[link] += route.bytes;
    }
  }
  return bytes;
}

void FlowEngine::place_in_heap(int link, Time finish) {
  auto placed = [this](const HeapItem& item, std::size_t at) {
    bottlenecks_[static_cast<std::size_t>(item.link)].place = static_cast<int>(at);
  };
  Bottleneck& here = bottlenecks_[static_cast<std::size_t>(link)];
  const bool is_earlier = finish < here.finish;
  if (here.place < 0) {
    if (finish == Time::max()) return;
    here.finish = finish;
    heap_.push_back({finish, link});
    sift_up(heap_, heap_.size() - 1, earlier, placed);
    return;
  }
  if (finish == here.finish) return;
  here.finish = finish;
  const auto at = static_cast<std::size_t>(here.place);
  if (finish == Time::max()) {
    const HeapItem last = heap_.back();
    heap_.pop_back();
    here.place = -1;
    if (at == heap_.size()) return;
    const bool rises = last.finish < heap_[at].finish;
    heap_[at] = last;
    if (rises) {
      sift_up(heap_, at, earlier, placed);
    } else {
      sift_down(heap_, at, earlier, placed);
    }
    return;
  }
  heap_[at].finish = finish;
  if (is_earlier) {
    sift_up(heap_, at, earlier, placed);
  } else {
    sift_down(heap_, at, earlier, placed);
  }
}

}  // namespace foretrain

#include "sim/network/flows.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"

namespace foretrain {
namespace {

constexpr std::size_t children = 4;
constexpr double picoseconds_a_second = 1e12;

std::vector<double> capacities_of(const Topology& topology) {
  std::vector<double> all;
  all.reserve(topology.links.size());
  for (const Link& link : topology.links) all.push_back(link.rate.bytes_per_second() * link.efficiency);
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

FlowEngine::FlowEngine(const Topology& topology) : sharing_(capacities_of(topology)) {}
FlowEngine::FlowEngine(std::span<const double> capacities) : sharing_(capacities) {}

int FlowEngine::add_route(std::span<const int> links, Time latency) {
  routes_.push_back({links_.size(), static_cast<int>(links.size()), latency, 0});
  links_.insert(links_.end(), links.begin(), links.end());
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
  moving_[static_cast<std::size_t>(id)] = {flow.bytes, 0, now_, Time::max(), flow.sequence, flow.tag, -1};
  is_current_ = false;
}

void FlowEngine::set_capacity(int link, double capacity) {
  sharing_.set_capacity(link, capacity);
  is_current_ = false;
}

// Books what has moved at the old rates and finds when the flows are through at the new ones.
void FlowEngine::update() {
  if (is_current_) return;
  for (int id : sharing_.solve()) {
    Moving& flow = moving_[static_cast<std::size_t>(id)];
    const double elapsed = static_cast<double>((now_ - flow.since).count()) / picoseconds_a_second;
    flow.left = std::max(0.0, flow.left - flow.rate * elapsed);
    flow.since = now_;
    flow.rate = sharing_.rate(id);
    place_in_heap(id, after(now_, flow.left, flow.rate));
  }
  is_current_ = true;
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
    const int id = pop();
    const Moving& flow = moving_[static_cast<std::size_t>(id)];
    through_.emplace_back(flow.sequence, flow.tag);
    sharing_.remove(id);
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

void FlowEngine::place_in_heap(int id, Time finish) {
  Moving& flow = moving_[static_cast<std::size_t>(id)];
  const bool is_earlier = finish < flow.finish;
  flow.finish = finish;
  if (flow.place < 0) {
    flow.place = static_cast<int>(heap_.size());
    heap_.push_back({finish, id});
    sift_up(heap_.size() - 1);
    return;
  }
  const auto at = static_cast<std::size_t>(flow.place);
  heap_[at].finish = finish;
  if (is_earlier) {
    sift_up(at);
  } else {
    sift_down(at);
  }
}

void FlowEngine::sift_up(std::size_t at) {
  const HeapItem item = heap_[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / children;
    if (heap_[parent].finish <= item.finish) break;
    heap_[at] = heap_[parent];
    moving_[static_cast<std::size_t>(heap_[at].flow)].place = static_cast<int>(at);
    at = parent;
  }
  heap_[at] = item;
  moving_[static_cast<std::size_t>(item.flow)].place = static_cast<int>(at);
}

void FlowEngine::sift_down(std::size_t at) {
  const HeapItem item = heap_[at];
  for (;;) {
    const std::size_t first = at * children + 1;
    if (first >= heap_.size()) break;
    std::size_t least = first;
    const std::size_t end = std::min(first + children, heap_.size());
    for (std::size_t child = first + 1; child < end; ++child) {
      if (heap_[child].finish < heap_[least].finish) least = child;
    }
    if (heap_[least].finish >= item.finish) break;
    heap_[at] = heap_[least];
    moving_[static_cast<std::size_t>(heap_[at].flow)].place = static_cast<int>(at);
    at = least;
  }
  heap_[at] = item;
  moving_[static_cast<std::size_t>(item.flow)].place = static_cast<int>(at);
}

int FlowEngine::pop() {
  const int id = heap_.front().flow;
  const HeapItem last = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) {
    heap_.front() = last;
    sift_down(0);
  }
  moving_[static_cast<std::size_t>(id)].place = -1;
  return id;
}

}  // namespace foretrain

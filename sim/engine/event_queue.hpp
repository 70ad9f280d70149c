// The engine's clock and queue. Events are ordered by (time, priority, sequence): a total order, so that a
// rerun gives the same bytes. Sequence is the order of scheduling.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"

namespace foretrain {

// A queue of events with a payload, and the clock that they move: Time within a step, JobTime on a job's
// timeline. Payload is a small value.
template <typename Payload, typename Instant = Time>
class EventQueue {
 public:
  struct Event {
    Instant time;
    std::uint32_t priority = 0;  // lower first at equal times
    std::uint64_t sequence = 0;
    Payload payload{};
  };

  Instant now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::uint64_t processed() const { return processed_; }

  // An event in the past is a fault of the caller.
  void schedule(Instant time, std::uint32_t priority, Payload payload) {
    if (time < now_) throw Error(ErrorKind::failure, "an event was scheduled in the past");
    heap_.push_back({time, priority, sequence_++, std::move(payload)});
    rise(heap_.size() - 1);
  }

  // Takes the first event and sets the clock to its time. The queue must not be empty.
  Event pop() {
    Event first = std::move(heap_.front());
    heap_.front() = std::move(heap_.back());
    heap_.pop_back();
    if (!heap_.empty()) sink(0);
    now_ = first.time;
    ++processed_;
    return first;
  }

 private:
  static constexpr std::size_t arity = 4;  // a wide heap is shallower: fewer cache misses than a binary one

  static bool before(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.sequence < b.sequence;
  }
  void rise(std::size_t i) {
    Event moving = std::move(heap_[i]);
    while (i > 0) {
      const std::size_t parent = (i - 1) / arity;
      if (!before(moving, heap_[parent])) break;
      heap_[i] = std::move(heap_[parent]);
      i = parent;
    }
    heap_[i] = std::move(moving);
  }
  void sink(std::size_t i) {
    Event moving = std::move(heap_[i]);
    for (;;) {
      const std::size_t first = i * arity + 1;
      if (first >= heap_.size()) break;
      std::size_t least = first;
      const std::size_t last = std::min(first + arity, heap_.size());
      for (std::size_t child = first + 1; child < last; ++child) {
        if (before(heap_[child], heap_[least])) least = child;
      }
      if (!before(heap_[least], moving)) break;
      heap_[i] = std::move(heap_[least]);
      i = least;
    }
    heap_[i] = std::move(moving);
  }

  std::vector<Event> heap_;
  Instant now_;
  std::uint64_t sequence_ = 0, processed_ = 0;
};

}  // namespace foretrain

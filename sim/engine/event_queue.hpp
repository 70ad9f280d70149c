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
    std::uint64_t order = 0;  // priority, then sequence
    Payload payload{};
    std::uint32_t priority() const { return static_cast<std::uint32_t>(order >> sequence_bits); }
  };
  static constexpr unsigned sequence_bits = 56;
  static constexpr std::uint32_t most_priority = 255;

  Instant now() const { return now_; }
  bool empty() const { return !holds_ && heap_.empty(); }
  std::size_t size() const { return heap_.size() + (holds_ ? 1 : 0); }
  std::uint64_t processed() const { return processed_; }

  // Lower priorities first at equal times. An event in the past is a fault of the caller.
  void schedule(Instant time, std::uint32_t priority, Payload payload) {
    if (time < now_ || priority > most_priority) refuse();
    Event event{time, std::uint64_t{priority} << sequence_bits | sequence_++, std::move(payload)};
    if (!holds_) {
      held_ = std::move(event);
      holds_ = true;
      return;
    }
    if (before(event, held_)) std::swap(event, held_);
    heap_.push_back(std::move(event));
    rise(heap_.size() - 1);
  }

  // Whether the first event comes before the others of that time and priority.
  bool begins_before(Instant time, std::uint32_t priority) const {
    const Event limit{time, std::uint64_t{priority} << sequence_bits, {}};
    return (holds_ && before(held_, limit)) || (!heap_.empty() && before(heap_.front(), limit));
  }
  // Of the first event. The queue must not be empty.
  Instant first_time() const { return first().time; }
  std::uint32_t first_priority() const { return first().priority(); }

  // The clock goes on to an event that need not be queued, since no other comes before it.
  void pass(Instant time) {
    now_ = time;
    ++processed_;
  }

  // Takes the first event and sets the clock to its time. The queue must not be empty.
  Event pop() {
    if (holds_ && (heap_.empty() || before(held_, heap_.front()))) {
      holds_ = false;
      now_ = held_.time;
      ++processed_;
      return held_;
    }
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

  [[noreturn]] static void refuse() {
    throw Error(ErrorKind::failure, "an event was scheduled in the past, or with no priority of ours");
  }
  const Event& first() const {
    return holds_ && (heap_.empty() || before(held_, heap_.front())) ? held_ : heap_.front();
  }
  static bool before(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.order < b.order;
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

  // The earliest of those scheduled since it was last taken: most events are followed at once by what they
  // scheduled, which then need not pass through the heap.
  Event held_{};
  bool holds_ = false;
  std::vector<Event> heap_;
  Instant now_;
  std::uint64_t sequence_ = 0, processed_ = 0;
};

}  // namespace foretrain

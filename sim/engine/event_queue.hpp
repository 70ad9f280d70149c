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
    const std::uint64_t order = std::uint64_t{priority} << sequence_bits | sequence_++;
    if (holds_) {
      const bool is_first = time != held_.time ? time < held_.time : order < held_.order;
      if (!is_first) return push({time, order, std::move(payload)});
      push(std::move(held_));
    }
    // Member by member, as pop() reads them: a load of several that were just stored apart would wait.
    held_.time = time;
    held_.order = order;
    held_.payload = std::move(payload);
    holds_ = true;
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
  Payload pop() {
    ++processed_;
    if (holds_ && (heap_.empty() || before(held_, heap_.front()))) {
      holds_ = false;
      now_ = held_.time;
      return std::move(held_.payload);
    }
    now_ = heap_.front().time;
    Payload payload = std::move(heap_.front().payload);
    heap_.front() = std::move(heap_.back());
    heap_.pop_back();
    if (!heap_.empty()) sink(0);
    return payload;
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
  void push(Event event) {
    std::size_t i = heap_.size();
    heap_.emplace_back();
    while (i > 0) {
      const std::size_t parent = (i - 1) / arity;
      if (!before(event, heap_[parent])) break;
      heap_[i] = std::move(heap_[parent]);
      i = parent;
    }
    heap_[i] = std::move(event);
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

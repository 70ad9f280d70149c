// The state of one replay (sim/training/replay): hosts and streams of each class of ranks, the collectives
// that they wait for or run, and the events that move them.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/engine/event_queue.hpp"
#include "sim/training/replay.hpp"
#include "sim/training/replay_program.hpp"

namespace foretrain {

// Ranks meet in collectives alone. Where kernels do not slow collectives, a collective ends a fixed time
// after the last has joined; then each rank goes by its own clock from one collective to the next, so that
// its state is at hand (ten times as fast for thousands of ranks as one clock for all). Else all share a
// clock.
class ReplayEngine {
 public:
  explicit ReplayEngine(const ReplayInput& input);
  ReplayResult run();

 private:
  static constexpr int settled = 4;  // steps of a job among others before one may be reported
  static constexpr int ring = 4;  // steps a host may be ahead of its device, and whose completions are kept

  enum class EventKind : std::uint8_t { stream_ready, kernel_end, collective_start, collective_end };
  struct Payload {
    EventKind kind;
    std::uint8_t stream;
    int subject;            // class, or collective instance where all ranks share a clock
    std::uint32_t version;  // events of an older version are stale
  };

  struct Issued {
    int step = 0;
    int place = 0;     // operation in the program
    Time first, last;  // when the first and the last of its launches can start on an idle device
  };

  // When the last launch of each operation that waits in a stream can start: first in, first out, in one
  // piece of memory. Which operations they are follows from the program.
  class IssuedQueue {
   public:
    bool empty() const { return count_ == 0; }
    Time front() const { return items_[head_]; }
    void push_back(Time last) {
      if (count_ == items_.size()) grow();
      items_[(head_ + count_++) & (items_.size() - 1)] = last;
    }
    void pop_front() {
      head_ = (head_ + 1) & (items_.size() - 1);
      --count_;
    }

   private:
    void grow();
    std::vector<Time> items_;  // a ring, a power of two long
    std::size_t head_ = 0, count_ = 0;
  };

  struct Stream {
    IssuedQueue queue;
    int head_step = 0, head = 0;  // of the first in the queue: step, and place among the stream's operations
    bool busy = false;
    std::uint32_t version = 0;
    Time ended = Time(-1);    // the operation before
    Time look_at = Time(-1);  // of the scheduled look at the head of the queue
    // The running kernel.
    Issued running{};
    Time start, updated, tail;  // tail: the last launch may not end before it
    double remaining = 0;       // picoseconds of work alone
    double slowdown = 1;
  };

  struct Rank {
    const ReplayProgram* program = nullptr;
    double compute_factor = 1;
    Stream streams[stream_count];
    int next_step = 0, next_place = 0;  // operation that the host issues next
    Time host;                          // when the host is free
    int outstanding = 0;                // launches issued and not ended
    bool blocked = false;
    std::vector<std::uint8_t> done;  // ring x operations
    std::vector<int> joined;         // collectives joined so far, by group
    int collective = -1;             // running on this rank
    double beside = 1;               // slowdown of kernels by it
    int joined_last = -1;            // collective
    int place = 0;                   // among its members
    bool waiting = false;            // joined it, and not all others have
    std::vector<Time> step_end;

    std::uint8_t& is_done(int step, int place_in_program) {
      return done[static_cast<std::size_t>(step % ring) * static_cast<std::size_t>(program->size()) +
                  static_cast<std::size_t>(place_in_program)];
    }
  };

  struct Instance {
    int group = 0;
    std::vector<std::pair<int, Issued>> members;  // class and its operation
    std::vector<Time> arrivals;
    std::size_t expected = 0;
    std::size_t running = 0;  // members that it has not ended for
    bool after_pause = true;  // no member's communication stream came from another collective
    CollectiveTiming timing;
    Time start, updated;
    double remaining = 0, slowdown = 1;
    int computing = 0;   // members with a kernel running
    double sharing = 1;  // how much longer other collectives make it
    const Operation* operation = nullptr;
    std::uint32_t version = 0;
  };

  // At one instant: ends of kernels first, then of collectives, then starts.
  static std::uint32_t priority_of(EventKind kind) {
    return kind == EventKind::kernel_end ? 0 : kind == EventKind::collective_end ? 1 : 2;
  }

  bool collectives_are_free() const;
  EventQueue<Payload>& queue(std::size_t c) { return queues_[own_clocks_ ? c : 0]; }
  Time now(std::size_t c) { return queue(c).now(); }
  bool is_ours(std::size_t c) const { return c < own_; }
  bool recorded(std::size_t c, int step) const {
    return input_.keeps_slices && is_ours(c) &&
           step >= (own_ < ranks_.size() ? settled - 1 : input_.steps - 2) &&
           (input_.recorded_class < 0 || input_.recorded_class == static_cast<int>(c));
  }
  void handle(const Payload& what);
  void schedule(std::size_t c, Time time, EventKind kind, int stream, int subject, std::uint32_t version) {
    queue(c).schedule(time, priority_of(kind),
                      Payload{kind, static_cast<std::uint8_t>(stream), subject, version});
  }

  // Hosts and streams (replay_streams.cpp).
  void advance_host(std::size_t c);
  void start_next(std::size_t c, int s);
  void schedule_end(std::size_t c, int s);
  void set_slowdown(std::size_t c, double slowdown);
  void finish(std::size_t c, int s, const Issued& issued, Time start, Time end, Time busy, bool waiting_first,
              Time joined_all);
  void after_end(std::size_t c);
  void end_kernel(std::size_t c, int s);

  // Collectives (replay_collectives.cpp).
  void join(std::size_t c, const Issued& issued);
  void begin_apart(Instance& instance);
  void begin_together(int id, Instance& instance);
  void set_computing(int id, int change);
  static double slowdown_of(const Instance& instance);
  void update_slowdown(int id, Instance& instance);
  void share();
  void schedule_collective_end(int id, Instance& instance);
  void release(const Instance& instance, std::size_t place, Time end);
  void leave(std::size_t c);
  void end_collective(int id);

  // What comes of it (replay_result.cpp).
  ReplayResult result();
  int median_step(std::size_t c) const;

  const ReplayInput& input_;
  const StepGraph& graph_;
  bool own_clocks_;
  std::deque<ReplayProgram> programs_;       // by program and speed of the host
  std::vector<EventQueue<Payload>> queues_;  // one, or of each class
  std::size_t own_ = 0, finished_ = 0;       // classes of ours, and of these those that have done all steps
  std::vector<int> running_;                 // collectives, on a common clock
  std::vector<std::size_t> ready_;           // classes with own clocks that may go on, in this order
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> members_of_group_;
  std::unordered_map<int, Instance> instances_;
  std::unordered_map<std::int64_t, int> id_of_;  // collectives that not all have joined
  int next_id_ = 0;
  std::vector<ReplaySlice> slices_;
  std::vector<Time> work_;  // of each class's compute stream in the last step
};

}  // namespace foretrain

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

// Ranks meet in collectives alone, so that each goes by its own clock from one collective to the next, with
// its state at hand (ten times as fast for thousands of ranks as one clock for all). A collective that
// kernels slow does not end before a bound, up to which its ranks go on; from when they computed until then
// follows when it ends, or a later bound. Where collectives slow each other all ranks share a clock.
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

  struct Stream {
    int head_step = 0, head = 0;          // begun next: step, and place among the stream's operations
    int ended_step = 0, ended_place = 0;  // ends next
    bool busy = false;
    std::uint32_t version = 0;
    Time ended = Time(-1);    // the operation before
    Time look_at = Time(-1);  // of the scheduled look at the head of the queue
    // The running kernel.
    Issued running{};
    Time start, updated, tail;  // tail: the last launch may not end before it
    Time worked;                // when its work is done, at the slowdown of now
    double remaining = 0;       // picoseconds of work alone
    double slowdown = 1;
  };

  static constexpr std::uint32_t after_kernels = 1, after_all = 3;  // priorities, at one instant

  // Events before it may be handled.
  struct Bound {
    Time time = Time::max();
    std::uint32_t priority = after_all;
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
    // Where each rank has a clock and kernels slow it: members that have reached the bound, and the members
    // that went busy (+1) or idle (-1) since the bound before.
    std::size_t reached = 0;
    Bound bound;
    std::vector<std::pair<Time, int>> changes;
  };

  struct Rank {
    const ReplayProgram* program = nullptr;
    const HostTimes* host_times = nullptr;
    double compute_factor = 1;
    Stream streams[stream_count];
    int next_step = 0, next_place = 0;  // operation that the host issues next
    Time host;                          // when the host is free
    int outstanding = 0;                // launches issued and not ended
    bool blocked = false;
    // When the last launch of each operation that waits can start on an idle device: ring x operations.
    std::vector<Time> issued;
    std::vector<int> joined;       // collectives joined so far, by group
    int collective = -1;           // running on this rank
    Instance* instance = nullptr;  // the same, where kernels slow it
    bool counted = false;          // as computing beside it
    Bound bound;                   // from the time when it began on
    bool at_bound = false;
    double beside = 1;     // slowdown of kernels by it
    int joined_last = -1;  // collective
    int place = 0;         // among its members
    bool waiting = false;  // joined it, and not all others have
    std::vector<Time> step_end;

    Time* issued_in(int step) {
      return issued.data() +
             static_cast<std::size_t>(step) % ring * static_cast<std::size_t>(program->size());
    }
    bool is_issued(int step, int operation) const {
      return step < next_step || (step == next_step && operation < next_place);
    }
    bool is_done(int step, int operation) const {
      const ReplayStep& op = (*program)[operation];
      const Stream& stream = streams[op.stream];
      return step < stream.ended_step || (step == stream.ended_step && op.order < stream.ended_place);
    }
  };

  static constexpr int compute = static_cast<int>(StreamId::compute);
  static constexpr int communication = static_cast<int>(StreamId::communication);
  Instance& instance_of(int id) { return instances_[static_cast<std::size_t>(id)]; }
  // Of a member of a collective.
  const ReplayStep& op_of(const std::pair<int, Issued>& member) const {
    return (*ranks_[static_cast<std::size_t>(member.first)].program)[member.second.place];
  }

  // At one instant: ends of kernels first, then of collectives, then starts.
  static std::uint32_t priority_of(EventKind kind) {
    return kind == EventKind::kernel_end ? 0 : kind == EventKind::collective_end ? after_kernels : 2;
  }

  EventQueue<Payload>& queue(std::size_t c) { return queues_[own_clocks_ ? c : 0]; }
  Time now(std::size_t c) { return queue(c).now(); }
  bool is_ours(std::size_t c) const { return c < own_; }
  bool recorded(std::size_t c, int step) const {
    return input_.keeps_slices && is_ours(c) &&
           step >= (own_ < ranks_.size() ? settled - 1 : input_.steps - 2) &&
           (input_.recorded_class < 0 || input_.recorded_class == static_cast<int>(c));
  }
  void run_apart();
  void handle(const Payload& what);
  void schedule(std::size_t c, Time time, EventKind kind, int stream, int subject, std::uint32_t version) {
    queue(c).schedule(time, priority_of(kind),
                      Payload{kind, static_cast<std::uint8_t>(stream), subject, version});
  }

  // Hosts and streams (replay_streams.cpp).
  // Whether the host must wait before it begins a step; before it goes on with what it issues next.
  static bool is_too_far_ahead(const Rank& rank, int step);
  bool host_is_free(const Rank& rank) const {
    if (rank.next_place == 0 && is_too_far_ahead(rank, rank.next_step)) return false;
    return rank.outstanding == 0 ||
           rank.outstanding + (*rank.program)[rank.next_place].launches <= input_.queue_depth;
  }
  void advance_host(std::size_t c);
  // Of a host that is free. A bit for each stream to which something was issued.
  unsigned issue(std::size_t c);
  unsigned issue_what_fits(std::size_t c);
  unsigned issue_next_steps(std::size_t c);
  // Slices of the host for the operations from `first` on that it has issued since `begin`.
  void keep_issued(std::size_t c, int first, Time begin);
  void start_next(std::size_t c, int s);
  // Of the operation that the stream runs from now on.
  void begin_kernel(std::size_t c, int s, const ReplayStep& op, Time here);
  // To the next of so many operations, of the next step after the last.
  static void step_on(int& step, int& place, std::size_t places) {
    if (++place < static_cast<int>(places)) return;
    place = 0;
    ++step;
  }
  // When the last of so many launches, which can start at `last`, ends.
  static Time tail_of(Time last, int launches, double work) {
    return last + rounded_work(launches > 1 ? work / launches : work);
  }
  void schedule_end(std::size_t c, int s);
  void set_slowdown(std::size_t c, double slowdown);
  void finish(std::size_t c, int s, const Issued& issued, Time start, Time end, Time busy, bool waiting_first,
              Time joined_all);
  // `op` has ended, on stream s.
  void after_end(std::size_t c, int s, const ReplayStep& op);
  void end_kernel(std::size_t c, int s);
  // The end of a kernel of the compute stream and of those after it, as long as nothing else happens.
  void end_kernels(std::size_t c);

  // Collectives (replay_collectives.cpp).
  void join(std::size_t c, const Issued& issued);
  int new_instance(int group);
  void begin_apart(Instance& instance);
  void begin_together(int id, Instance& instance);
  void begin_slowed(Instance& instance);
  void go_on(Instance& instance);
  void settle(Instance& instance, Time end);
  // A member's compute stream went busy (+1) or idle (-1) beside a collective that it slows.
  void set_computing(Rank& rank, Time here, int change) {
    Instance& instance = *rank.instance;
    rank.counted = change > 0;
    if (own_clocks_) {
      instance.changes.emplace_back(here, change);
      return;
    }
    instance.computing += change;
    if (slowdown_of(instance) != instance.slowdown) update_slowdown(rank.collective, instance, here);
  }
  static double slowdown_of(const Instance& instance) {
    return (instance.computing > 0 ? instance.timing.collective_slowdown : 1.0) * instance.sharing;
  }
  void advance(Instance& instance, Time here);
  void update_slowdown(int id, Instance& instance, Time here);
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
  bool own_clocks_;                          // a clock for each class
  std::vector<ReplayProgram> made_;          // where the input has none
  HostTimesOfPrograms own_host_times_;       // likewise
  std::vector<EventQueue<Payload>> queues_;  // one, or of each class
  std::size_t own_ = 0, finished_ = 0;       // classes of ours, and of these those that have done all steps
  std::vector<int> running_;                 // collectives, on a common clock
  std::vector<std::size_t> ready_;           // classes with own clocks that may go on, in this order
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> members_of_group_;
  std::deque<Instance> instances_;               // by id, at places that stay
  std::vector<int> spare_;                       // ids of those that have ended
  std::unordered_map<std::int64_t, int> id_of_;  // collectives that not all have joined
  std::vector<ReplaySlice> slices_;
  std::vector<Time> work_;  // of each class's compute stream in the last step
};

}  // namespace foretrain

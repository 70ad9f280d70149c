#include "sim/training/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "sim/engine/event_queue.hpp"

namespace foretrain {
namespace {

constexpr int settled = 4;  // steps of a job among others before one may be reported
constexpr int ring = 4;     // steps a host may be ahead of its device, and whose completions are remembered

enum class EventKind : std::uint8_t { stream_ready, kernel_end, collective_start, collective_end };

struct Payload {
  EventKind kind;
  std::uint8_t stream;
  int subject;            // class, or collective instance where all ranks share a clock
  std::uint32_t version;  // events of an older version are stale
};

// At one instant: ends of kernels first, then of collectives, then starts.
std::uint32_t priority_of(EventKind kind) {
  return kind == EventKind::kernel_end ? 0 : kind == EventKind::collective_end ? 1 : 2;
}

// Picoseconds of work; beyond the range of Time an error.
Time rounded(double picoseconds) {
  return Time(detail::checked_round(picoseconds, detail::TimeTag::quantity, detail::TimeTag::range));
}

struct Issued {
  std::int64_t index;  // step * operations + operation
  int place;           // operation in the program
  Time first, last;    // when the first and the last of its launches can start on an idle device
};

// First in, first out, in one piece of memory.
class IssuedQueue {
 public:
  bool empty() const { return count_ == 0; }
  const Issued& front() const { return items_[head_]; }
  void push_back(const Issued& issued) {
    if (count_ == items_.size()) {
      std::rotate(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_), items_.end());
      head_ = 0;
      items_.resize(std::max<std::size_t>(16, 2 * items_.size()));
    }
    items_[(head_ + count_++) & (items_.size() - 1)] = issued;
  }
  void pop_front() {
    head_ = (head_ + 1) & (items_.size() - 1);
    --count_;
  }

 private:
  std::vector<Issued> items_;  // a ring, a power of two long
  std::size_t head_ = 0, count_ = 0;
};

struct Stream {
  IssuedQueue queue;
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
  Stream streams[stream_count];
  std::int64_t next = 0;  // operation that the host issues next
  Time host;              // when the host is free
  int outstanding = 0;    // launches issued and not ended
  bool blocked = false;
  std::vector<std::uint8_t> done;  // ring x operations
  std::vector<int> joined;         // collectives joined so far, by group
  int collective = -1;             // running on this rank
  int joined_last = -1;            // collective
  int place = 0;                   // among its members
  bool waiting = false;            // joined it, and not all others have
  std::vector<Time> step_end;
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

// Ranks meet in collectives alone. Where kernels do not slow collectives, a collective ends a fixed time
// after the last has joined; then each rank goes by its own clock from one collective to the next, so that
// its state is at hand (ten times as fast for thousands of ranks as one clock for all). Else all share a
// clock.
class Replay {
 public:
  explicit Replay(const ReplayInput& input)
      : input_(input),
        graph_(*input.graph),
        own_clocks_(input.classes.size() > 1 && !input.sharing && collectives_are_free()) {
    own_ = input_.own_classes > 0 ? input_.own_classes : input_.classes.size();
    ranks_.resize(input_.classes.size());
    queues_.resize(own_clocks_ ? ranks_.size() : 1);
    work_.resize(input_.classes.size());
    members_of_group_.resize(graph_.groups.size());
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      std::vector<bool> takes_part(ranks_.size());
      for (int rank : graph_.groups[g].ranks) {
        takes_part[static_cast<std::size_t>(input_.class_of_rank.at(static_cast<std::size_t>(rank)))] = true;
      }
      for (std::size_t c = 0; c < ranks_.size(); ++c) {
        if (takes_part[c]) members_of_group_[g].push_back(static_cast<int>(c));
      }
    }
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      ranks_[c].done.assign(operations(c).size() * ring, 0);
      ranks_[c].joined.assign(graph_.groups.size(), 0);
    }
  }

  ReplayResult run() {
    for (std::size_t c = 0; c < ranks_.size(); ++c) advance_host(c);
    if (own_clocks_) {
      for (std::size_t c = 0; c < ranks_.size(); ++c) ready_.push_back(c);
      for (std::size_t i = 0; i < ready_.size(); ++i) {
        const std::size_t c = ready_[i];
        while (!ranks_[c].waiting && !queues_[c].empty()) handle(queues_[c].pop().payload);
      }
    } else {
      // Other jobs go on for ever.
      while (!queues_[0].empty() && (own_ == ranks_.size() || finished_ < own_)) {
        handle(queues_[0].pop().payload);
      }
    }
    return result();
  }

 private:
  // Whether no kernel slows a collective.
  bool collectives_are_free() const {
    for (const RankProgram& program : graph_.programs) {
      for (const Operation& each : program.operations) {
        if (each.group < 0) continue;
        const ProcessGroup& group = graph_.groups[static_cast<std::size_t>(each.group)];
        if (input_.timer(group, each).collective_slowdown != 1) return false;
      }
    }
    return true;
  }

  EventQueue<Payload>& queue(std::size_t c) { return queues_[own_clocks_ ? c : 0]; }
  Time now(std::size_t c) { return queue(c).now(); }

  void handle(const Payload& what) {
    const auto subject = static_cast<std::size_t>(what.subject);
    switch (what.kind) {
      case EventKind::collective_start:
        ranks_[subject].collective = ranks_[subject].joined_last;
        set_slowdown(subject, instances_.at(ranks_[subject].collective).timing.compute_slowdown);
        return;
      case EventKind::collective_end:
        if (own_clocks_) {
          leave(subject);
        } else if (const auto found = instances_.find(what.subject);
                   found != instances_.end() && found->second.version == what.version) {
          end_collective(what.subject);
        }
        return;
      case EventKind::kernel_end:
        if (ranks_[subject].streams[what.stream].version == what.version) end_kernel(subject, what.stream);
        return;
      case EventKind::stream_ready:
        if (ranks_[subject].streams[what.stream].version == what.version) start_next(subject, what.stream);
        return;
    }
  }

  const std::vector<Operation>& operations(std::size_t c) const {
    return graph_.programs[static_cast<std::size_t>(input_.classes[c].program)].operations;
  }
  const Operation& operation(std::size_t c, std::int64_t index) const {
    const auto& all = operations(c);
    return all[static_cast<std::size_t>(index) % all.size()];
  }
  int step_of(std::size_t c, std::int64_t index) const {
    return static_cast<int>(index / static_cast<std::int64_t>(operations(c).size()));
  }
  std::uint8_t& done(std::size_t c, std::int64_t index) {
    return ranks_[c].done[static_cast<std::size_t>(index) % ranks_[c].done.size()];
  }
  bool recorded(std::size_t c, int step) const {
    return input_.keeps_slices && c < own_ &&
           step >= (own_ < ranks_.size() ? settled - 1 : input_.steps - 2) &&
           (input_.recorded_class < 0 || input_.recorded_class == static_cast<int>(c));
  }

  // The host issues operations until all are issued, the device's queue is full, or it is a few steps ahead.
  void advance_host(std::size_t c) {
    Rank& rank = ranks_[c];
    const auto& all = operations(c);
    const auto total = c < own_ ? static_cast<std::int64_t>(all.size()) * input_.steps
                                : std::numeric_limits<std::int64_t>::max();
    if (rank.blocked) {
      rank.host = std::max(rank.host, now(c));
      rank.blocked = false;
    }
    bool issued[stream_count] = {};
    while (rank.next < total) {
      const Operation& op = operation(c, rank.next);
      const int step = step_of(c, rank.next);
      const bool full = rank.outstanding > 0 && rank.outstanding + op.launches > input_.queue_depth;
      const bool ahead = step >= ring - 1 && static_cast<int>(rank.step_end.size()) < step - (ring - 2);
      if (full || ahead) {
        rank.blocked = true;
        break;
      }
      const Time host = op.host * input_.classes[c].host_factor;
      const Time begin = rank.host;
      rank.host += host;
      const Time first = begin + host * (1.0 / std::max(op.launches, 1));
      if (recorded(c, step) && host.count() > 0) {
        slices_.push_back({static_cast<int>(c), step, index_in_program(c, rank.next), Track::host, false,
                           begin, rank.host, host});
      }
      const int s = static_cast<int>(op.stream);
      rank.streams[s].queue.push_back({rank.next, index_in_program(c, rank.next),
                                       first + input_.launch_latency, rank.host + input_.launch_latency});
      done(c, rank.next) = 0;
      rank.outstanding += op.launches;
      issued[s] = true;
      ++rank.next;
    }
    for (int s = 0; s < stream_count; ++s) {
      if (issued[s]) start_next(c, s);
    }
  }

  int index_in_program(std::size_t c, std::int64_t index) const {
    return static_cast<int>(index % static_cast<std::int64_t>(operations(c).size()));
  }

  // Starts the operation at the head of a stream's queue, or schedules a look at it for when it can start.
  // Where it waits for another stream, the end of that one looks again.
  void start_next(std::size_t c, int s) {
    Stream& stream = ranks_[c].streams[s];
    if (stream.busy || stream.queue.empty()) return;
    const Issued head = stream.queue.front();
    const Operation& op = operations(c)[static_cast<std::size_t>(head.place)];
    const std::int64_t base = head.index - head.place;
    for (int before : op.after) {
      if (done(c, base + before) == 0) return;
    }
    if (head.first > now(c)) {
      if (stream.look_at == head.first) return;
      stream.look_at = head.first;
      schedule(c, head.first, EventKind::stream_ready, s, static_cast<int>(c), ++stream.version);
      return;
    }
    stream.queue.pop_front();
    stream.busy = true;
    stream.look_at = Time(-1);
    stream.running = head;
    stream.start = now(c);
    ++stream.version;
    if (op.group >= 0) {
      join(c, head);
      return;
    }
    stream.remaining = static_cast<double>(op.device.count()) *
                       (s == static_cast<int>(StreamId::compute) ? input_.classes[c].compute_factor : 1.0);
    stream.updated = now(c);
    stream.tail = head.last + rounded(stream.remaining / std::max(op.launches, 1));
    stream.slowdown = 1;
    if (s == static_cast<int>(StreamId::compute) && ranks_[c].collective >= 0) {
      Instance& beside = instances_.at(ranks_[c].collective);
      stream.slowdown = beside.timing.compute_slowdown;
      set_computing(ranks_[c].collective, beside, +1);
    }
    schedule_end(c, s);
  }

  void schedule(std::size_t c, Time time, EventKind kind, int stream, int subject, std::uint32_t version) {
    queue(c).schedule(time, priority_of(kind),
                      Payload{kind, static_cast<std::uint8_t>(stream), subject, version});
  }

  void schedule_end(std::size_t c, int s) {
    Stream& stream = ranks_[c].streams[s];
    const Time end = now(c) + rounded(stream.remaining * stream.slowdown);
    schedule(c, std::max(end, stream.tail), EventKind::kernel_end, s, static_cast<int>(c), ++stream.version);
  }

  void set_slowdown(std::size_t c, double slowdown) {
    Stream& stream = ranks_[c].streams[static_cast<int>(StreamId::compute)];
    if (!stream.busy || stream.slowdown == slowdown) return;
    const double passed = static_cast<double>((now(c) - stream.updated).count());
    stream.remaining = std::max(0.0, stream.remaining - passed / stream.slowdown);
    stream.updated = now(c);
    stream.slowdown = slowdown;
    schedule_end(c, static_cast<int>(StreamId::compute));
  }

  // A member's compute stream went busy or idle beside a running collective.
  void set_computing(int id, Instance& instance, int change) {
    if (own_clocks_) return;
    instance.computing += change;
    update_slowdown(id, instance);
  }

  static double slowdown_of(const Instance& instance) {
    return (instance.computing > 0 ? instance.timing.collective_slowdown : 1.0) * instance.sharing;
  }

  void update_slowdown(int id, Instance& instance) {
    const double slowdown = slowdown_of(instance);
    if (slowdown == instance.slowdown) return;
    const double passed = static_cast<double>((queues_[0].now() - instance.updated).count());
    instance.remaining = std::max(0.0, instance.remaining - passed / instance.slowdown);
    instance.updated = queues_[0].now();
    instance.slowdown = slowdown;
    schedule_collective_end(id, instance);
  }

  // What runs has changed: all that run find anew what they leave each other.
  void share() {
    if (!input_.sharing) return;
    std::vector<RunningCollective> all;
    for (const int id : running_) {
      const Instance& instance = instances_.at(id);
      all.push_back({instance.group, instance.operation});
    }
    const std::vector<double> factors = input_.sharing(all);
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Instance& instance = instances_.at(running_[i]);
      instance.sharing = factors[i];
      update_slowdown(running_[i], instance);
    }
  }

  void schedule_collective_end(int id, Instance& instance) {
    const Time end = queues_[0].now() + rounded(instance.remaining * instance.slowdown);
    schedule(0, end, EventKind::collective_end, 0, id, ++instance.version);
  }

  void finish(std::size_t c, int s, const Issued& issued, Time start, Time end, Time busy, bool waiting_first,
              Time joined_all) {
    Rank& rank = ranks_[c];
    const Operation& op = operations(c)[static_cast<std::size_t>(issued.place)];
    const int step = step_of(c, issued.index);
    if (c < own_ && s == static_cast<int>(StreamId::compute) && step == input_.steps - 1) work_[c] += busy;
    if (recorded(c, step)) {
      const int index = issued.place;
      const Track track = s == static_cast<int>(StreamId::compute)         ? Track::compute
                          : s == static_cast<int>(StreamId::communication) ? Track::communication
                                                                           : Track::copy;
      if (waiting_first && joined_all > start) {
        slices_.push_back({static_cast<int>(c), step, index, track, true, start, joined_all, Time()});
      }
      slices_.push_back(
          {static_cast<int>(c), step, index, track, false, waiting_first ? joined_all : start, end, busy});
    }
    done(c, issued.index) = 1;
    rank.outstanding -= op.launches;
    Stream& stream = rank.streams[s];
    stream.busy = false;
    stream.ended = end;
    ++stream.version;
    if (issued.place != last_compute(c)) return;
    rank.step_end.push_back(end);
    if (c < own_ && static_cast<int>(rank.step_end.size()) == input_.steps) ++finished_;
  }

  // The last operation of the compute stream ends a step.
  int last_compute(std::size_t c) {
    const auto program = static_cast<std::size_t>(input_.classes[c].program);
    if (last_compute_.size() <= program) last_compute_.resize(graph_.programs.size(), -1);
    if (last_compute_[program] < 0) {
      const auto& all = operations(c);
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].stream == StreamId::compute) last_compute_[program] = static_cast<int>(i);
      }
    }
    return last_compute_[program];
  }

  void after_end(std::size_t c) {
    if (ranks_[c].blocked) advance_host(c);
    for (int s = 0; s < stream_count; ++s) start_next(c, s);
  }

  void end_kernel(std::size_t c, int s) {
    Stream& stream = ranks_[c].streams[s];
    const Time time = now(c);
    // Busy is the kernel's own time, lengthened by what ran beside it; the rest of the interval the device
    // starved.
    const Time worked = stream.updated + rounded(stream.remaining * stream.slowdown);
    const int beside = ranks_[c].collective;
    finish(c, s, stream.running, stream.start, time, std::min(time, worked) - stream.start, false, Time());
    after_end(c);
    // The next kernel, where there is one, has been counted already: an instant between two kernels is no
    // change.
    if (s == static_cast<int>(StreamId::compute) && beside >= 0)
      set_computing(beside, instances_.at(beside), -1);
  }

  void join(std::size_t c, const Issued& issued) {
    Rank& rank = ranks_[c];
    const Operation& op = operation(c, issued.index);
    const int sequence = rank.joined[static_cast<std::size_t>(op.group)]++;
    const std::int64_t key =
        static_cast<std::int64_t>(sequence) * static_cast<std::int64_t>(graph_.groups.size()) + op.group;
    auto [found, is_new] = id_of_.try_emplace(key, next_id_);
    if (is_new) {
      Instance& fresh = instances_[next_id_++];
      fresh.group = op.group;
      fresh.expected = members_of_group_[static_cast<std::size_t>(op.group)].size();
      fresh.members.reserve(fresh.expected);
      fresh.arrivals.reserve(fresh.expected);
    }
    const int id = found->second;
    Instance& instance = instances_.at(id);
    rank.joined_last = id;
    rank.place = static_cast<int>(instance.members.size());
    rank.waiting = true;
    instance.members.emplace_back(static_cast<int>(c), issued);
    if (rank.streams[static_cast<int>(StreamId::communication)].ended == now(c)) instance.after_pause = false;
    instance.arrivals.push_back(now(c));
    if (instance.members.size() < instance.expected) return;
    id_of_.erase(key);
    instance.operation = &op;
    instance.timing = input_.timer(graph_.groups[static_cast<std::size_t>(op.group)], op);
    instance.start = instance.updated = *std::max_element(instance.arrivals.begin(), instance.arrivals.end());
    const Time pause = instance.after_pause ? instance.timing.start : Time();
    instance.remaining =
        static_cast<double>(std::max<std::int64_t>(0, (instance.timing.alone + pause).count()));
    if (own_clocks_) {
      begin_apart(instance);
    } else {
      begin_together(id, instance);
    }
  }

  void begin_apart(Instance& instance) {
    const Time end = instance.start + rounded(instance.remaining);
    instance.running = instance.members.size();
    for (const auto& [member, unused] : instance.members) {
      const auto m = static_cast<std::size_t>(member);
      ranks_[m].waiting = false;
      if (end > instance.start) schedule(m, instance.start, EventKind::collective_start, 0, member, 0);
      schedule(m, end, EventKind::collective_end, 0, member, 0);
      ready_.push_back(m);
    }
  }

  void begin_together(int id, Instance& instance) {
    for (const auto& [member, unused] : instance.members) {
      const auto m = static_cast<std::size_t>(member);
      ranks_[m].waiting = false;
      ranks_[m].collective = id;
      if (ranks_[m].streams[static_cast<int>(StreamId::compute)].busy) ++instance.computing;
      set_slowdown(m, instance.timing.compute_slowdown);
    }
    instance.slowdown = slowdown_of(instance);
    schedule_collective_end(id, instance);
    running_.push_back(id);
    share();
  }

  // A member's part of the end.
  void release(const Instance& instance, std::size_t place, Time end) {
    const auto c = static_cast<std::size_t>(instance.members[place].first);
    ranks_[c].collective = -1;
    set_slowdown(c, 1);
    finish(c, static_cast<int>(StreamId::communication), instance.members[place].second,
           instance.arrivals[place], end, end - instance.start, true, instance.start);
  }

  void leave(std::size_t c) {
    const int id = ranks_[c].joined_last;
    Instance& instance = instances_.at(id);
    release(instance, static_cast<std::size_t>(ranks_[c].place), now(c));
    if (--instance.running == 0) instances_.erase(id);
    after_end(c);
  }

  void end_collective(int id) {
    const Instance instance = std::move(instances_.at(id));
    instances_.erase(id);
    std::erase(running_, id);
    share();
    for (std::size_t i = 0; i < instance.members.size(); ++i) release(instance, i, queues_[0].now());
    for (const auto& [member, unused] : instance.members) after_end(static_cast<std::size_t>(member));
  }

  ReplayResult result() {
    ReplayResult out;
    for (const auto& each : queues_) out.events += each.processed();
    out.classes.resize(own_);
    std::size_t last = 0;
    for (std::size_t c = 0; c < own_; ++c) {
      const auto& ends = ranks_[c].step_end;
      if (static_cast<int>(ends.size()) < input_.steps) {
        throw Error(ErrorKind::failure,
                    fmt::format("the replay stopped in step {} of {}: ranks wait for each other",
                                ends.size() + 1, input_.steps));
      }
      if (work_[c] > work_[static_cast<std::size_t>(out.slowest)]) out.slowest = static_cast<int>(c);
    }
    out.reported =
        own_ < ranks_.size() ? median_step(static_cast<std::size_t>(out.slowest)) : input_.steps - 1;
    const auto step = static_cast<std::size_t>(out.reported);
    for (std::size_t c = 0; c < own_; ++c) {
      const auto& ends = ranks_[c].step_end;
      out.classes[c] = {ends[step - 1], ends[step]};
      if (ends[step] > ranks_[last].step_end[step]) last = c;
    }
    out.step = out.classes[last].duration();
    if (own_ == ranks_.size() && input_.steps >= 3) {
      const auto& ends = ranks_[last].step_end;
      const Time previous = ends[step - 1] - ends[step - 2];
      const double change = std::fabs(static_cast<double>((out.step - previous).count()));
      out.steady = change <= 1e-3 * static_cast<double>(out.step.count());
    }
    std::erase_if(slices_, [&](const ReplaySlice& slice) {
      return slice.step != out.reported && slice.step != out.reported - 1;
    });
    std::stable_sort(slices_.begin(), slices_.end(),
                     [](const ReplaySlice& a, const ReplaySlice& b) { return a.end < b.end; });
    out.slices = std::move(slices_);
    return out;
  }

  // Of those after the first ones; beside other jobs steps differ.
  int median_step(std::size_t c) const {
    const auto& ends = ranks_[c].step_end;
    std::vector<int> steps;
    for (int step = std::min(settled, input_.steps - 1); step < input_.steps; ++step) steps.push_back(step);
    auto duration = [&](int step) {
      return ends[static_cast<std::size_t>(step)] - ends[static_cast<std::size_t>(step) - 1];
    };
    std::stable_sort(steps.begin(), steps.end(), [&](int a, int b) { return duration(a) < duration(b); });
    return steps[(steps.size() - 1) / 2];
  }

  const ReplayInput& input_;
  const StepGraph& graph_;
  bool own_clocks_;
  std::vector<EventQueue<Payload>> queues_;  // one, or of each class
  std::size_t own_ = 0, finished_ = 0;       // classes of ours, and of these those that have done all steps
  std::vector<int> running_;                 // collectives, on a common clock
  std::vector<std::size_t> ready_;           // classes with own clocks that may go on, in this order
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> members_of_group_;
  std::unordered_map<int, Instance> instances_;
  std::unordered_map<std::int64_t, int> id_of_;  // collectives that not all have joined
  int next_id_ = 0;
  std::vector<int> last_compute_;
  std::vector<ReplaySlice> slices_;
  std::vector<Time> work_;  // of each class's compute stream in the last step
};

}  // namespace

ReplayInput plain_replay(const StepGraph& graph) {
  ReplayInput input;
  input.graph = &graph;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    input.classes.push_back({graph.program_of_rank[static_cast<std::size_t>(rank)], 1, 1, 1});
    input.class_of_rank.push_back(rank);
  }
  return input;
}

ReplayInput symmetric_replay(const StepGraph& graph) {
  ReplayInput input;
  input.graph = &graph;
  std::vector<int> class_of_program(graph.programs.size(), -1);
  for (int program : graph.program_of_rank) {
    int& own = class_of_program[static_cast<std::size_t>(program)];
    if (own < 0) {
      own = static_cast<int>(input.classes.size());
      input.classes.push_back({program, 0, 1, 1});
    }
    ++input.classes[static_cast<std::size_t>(own)].count;
    input.class_of_rank.push_back(own);
  }
  return input;
}

ReplayResult replay(const ReplayInput& input) {
  if (input.steps < 2)
    throw Error(ErrorKind::failure, "a replay needs two steps at least: the first is the warm-up");
  return Replay(input).run();
}

}  // namespace foretrain

#include "sim/training/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "sim/engine/event_queue.hpp"

namespace foretrain {
namespace {

constexpr int ring = 4;  // steps a host may be ahead of its device, and whose completions are remembered

enum class EventKind : std::uint8_t { stream_ready, kernel_end, collective_end };

struct Payload {
  EventKind kind;
  std::uint8_t stream;
  int subject;            // class, or collective instance
  std::uint32_t version;  // events of an older version are stale
};

// At one instant: ends of kernels first, then of collectives, then starts.
std::uint32_t priority_of(EventKind kind) {
  return kind == EventKind::kernel_end ? 0 : kind == EventKind::collective_end ? 1 : 2;
}

struct Issued {
  std::int64_t index;  // step * operations + operation
  int place;           // operation in the program
  Time first, last;    // when the first and the last of its launches can start on an idle device
};

// First in, first out, in one piece of memory.
class IssuedQueue {
 public:
  bool empty() const { return head_ == items_.size(); }
  const Issued& front() const { return items_[head_]; }
  void push_back(const Issued& issued) { items_.push_back(issued); }
  void pop_front() {
    if (++head_ < items_.size()) return;
    items_.clear();
    head_ = 0;
  }

 private:
  std::vector<Issued> items_;
  std::size_t head_ = 0;
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
  std::vector<Time> step_end;
};

struct Instance {
  int group = 0;
  std::vector<std::pair<int, Issued>> members;  // class and its operation
  std::vector<Time> arrivals;
  std::size_t expected = 0;
  bool after_pause = true;  // no member's communication stream came from another collective
  CollectiveTiming timing;
  Time start, updated;
  double remaining = 0, slowdown = 1;
  int computing = 0;  // members with a kernel running
  std::uint32_t version = 0;
};

class Replay {
 public:
  explicit Replay(const ReplayInput& input) : input_(input), graph_(*input.graph) {
    ranks_.resize(input_.classes.size());
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
    while (!queue_.empty()) {
      const auto event = queue_.pop();
      const Payload& what = event.payload;
      if (what.kind == EventKind::collective_end) {
        auto found = instances_.find(what.subject);
        if (found != instances_.end() && found->second.version == what.version) end_collective(what.subject);
        continue;
      }
      Stream& stream = ranks_[static_cast<std::size_t>(what.subject)].streams[what.stream];
      if (stream.version != what.version) continue;
      if (what.kind == EventKind::kernel_end) {
        end_kernel(static_cast<std::size_t>(what.subject), what.stream);
      } else {
        start_next(static_cast<std::size_t>(what.subject), what.stream);
      }
    }
    return result();
  }

 private:
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
    return input_.keeps_slices && step >= input_.steps - 2 &&
           (input_.recorded_class < 0 || input_.recorded_class == static_cast<int>(c));
  }

  // The host issues operations until all are issued, the device's queue is full, or it is a few steps ahead.
  void advance_host(std::size_t c) {
    Rank& rank = ranks_[c];
    const auto& all = operations(c);
    const auto total = static_cast<std::int64_t>(all.size()) * input_.steps;
    if (rank.blocked) {
      rank.host = std::max(rank.host, queue_.now());
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
    if (head.first > queue_.now()) {
      if (stream.look_at == head.first) return;
      stream.look_at = head.first;
      schedule(head.first, EventKind::stream_ready, s, static_cast<int>(c), ++stream.version);
      return;
    }
    stream.queue.pop_front();
    stream.busy = true;
    stream.look_at = Time(-1);
    stream.running = head;
    stream.start = queue_.now();
    ++stream.version;
    if (op.group >= 0) {
      join(c, head);
      return;
    }
    stream.remaining = static_cast<double>(op.device.count()) *
                       (s == static_cast<int>(StreamId::compute) ? input_.classes[c].compute_factor : 1.0);
    stream.updated = queue_.now();
    stream.tail = head.last + Time(std::llround(stream.remaining / std::max(op.launches, 1)));
    stream.slowdown = 1;
    if (s == static_cast<int>(StreamId::compute) && ranks_[c].collective >= 0) {
      Instance& beside = instances_.at(ranks_[c].collective);
      stream.slowdown = beside.timing.compute_slowdown;
      set_computing(ranks_[c].collective, beside, +1);
    }
    schedule_end(c, s);
  }

  void schedule(Time time, EventKind kind, int stream, int subject, std::uint32_t version) {
    queue_.schedule(time, priority_of(kind),
                    Payload{kind, static_cast<std::uint8_t>(stream), subject, version});
  }

  void schedule_end(std::size_t c, int s) {
    Stream& stream = ranks_[c].streams[s];
    const Time end = queue_.now() + Time(std::llround(stream.remaining * stream.slowdown));
    schedule(std::max(end, stream.tail), EventKind::kernel_end, s, static_cast<int>(c), ++stream.version);
  }

  void set_slowdown(std::size_t c, double slowdown) {
    Stream& stream = ranks_[c].streams[static_cast<int>(StreamId::compute)];
    if (!stream.busy || stream.slowdown == slowdown) return;
    const double passed = static_cast<double>((queue_.now() - stream.updated).count());
    stream.remaining = std::max(0.0, stream.remaining - passed / stream.slowdown);
    stream.updated = queue_.now();
    stream.slowdown = slowdown;
    schedule_end(c, static_cast<int>(StreamId::compute));
  }

  // A member's compute stream went busy or idle beside a running collective.
  void set_computing(int id, Instance& instance, int change) {
    instance.computing += change;
    const double slowdown = instance.computing > 0 ? instance.timing.collective_slowdown : 1.0;
    if (slowdown == instance.slowdown) return;
    const double passed = static_cast<double>((queue_.now() - instance.updated).count());
    instance.remaining = std::max(0.0, instance.remaining - passed / instance.slowdown);
    instance.updated = queue_.now();
    instance.slowdown = slowdown;
    schedule_collective_end(id, instance);
  }

  void schedule_collective_end(int id, Instance& instance) {
    const Time end = queue_.now() + Time(std::llround(instance.remaining * instance.slowdown));
    schedule(end, EventKind::collective_end, 0, id, ++instance.version);
  }

  void finish(std::size_t c, int s, const Issued& issued, Time start, Time end, Time busy, bool waiting_first,
              Time joined_all) {
    Rank& rank = ranks_[c];
    const Operation& op = operations(c)[static_cast<std::size_t>(issued.place)];
    const int step = step_of(c, issued.index);
    if (s == static_cast<int>(StreamId::compute) && step == input_.steps - 1) work_[c] += busy;
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
    if (issued.place == last_compute(c)) rank.step_end.push_back(end);
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
    const Time now = queue_.now();
    // Busy is the kernel's own time, lengthened by what ran beside it; the rest of the interval the device
    // starved.
    const Time worked = stream.updated + Time(std::llround(stream.remaining * stream.slowdown));
    const int beside = ranks_[c].collective;
    finish(c, s, stream.running, stream.start, now, std::min(now, worked) - stream.start, false, Time());
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
    instance.members.emplace_back(static_cast<int>(c), issued);
    if (rank.streams[static_cast<int>(StreamId::communication)].ended == queue_.now())
      instance.after_pause = false;
    instance.arrivals.push_back(queue_.now());
    if (instance.members.size() < instance.expected) return;
    id_of_.erase(key);
    instance.timing = input_.timer(graph_.groups[static_cast<std::size_t>(op.group)], op);
    instance.start = instance.updated = queue_.now();
    const Time pause = instance.after_pause ? instance.timing.start : Time();
    instance.remaining =
        static_cast<double>(std::max<std::int64_t>(0, (instance.timing.alone + pause).count()));
    for (const auto& [member, unused] : instance.members) {
      const auto m = static_cast<std::size_t>(member);
      ranks_[m].collective = id;
      if (ranks_[m].streams[static_cast<int>(StreamId::compute)].busy) ++instance.computing;
      set_slowdown(m, instance.timing.compute_slowdown);
    }
    instance.slowdown = instance.computing > 0 ? instance.timing.collective_slowdown : 1.0;
    schedule_collective_end(id, instance);
  }

  void end_collective(int id) {
    Instance instance = std::move(instances_.at(id));
    instances_.erase(id);
    const Time now = queue_.now();
    for (std::size_t i = 0; i < instance.members.size(); ++i) {
      const auto c = static_cast<std::size_t>(instance.members[i].first);
      ranks_[c].collective = -1;
      set_slowdown(c, 1);
      finish(c, static_cast<int>(StreamId::communication), instance.members[i].second, instance.arrivals[i],
             now, now - instance.start, true, instance.start);
    }
    for (const auto& [member, unused] : instance.members) after_end(static_cast<std::size_t>(member));
  }

  ReplayResult result() {
    ReplayResult out;
    out.events = queue_.processed();
    out.classes.resize(ranks_.size());
    std::size_t last = 0;
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      const auto& ends = ranks_[c].step_end;
      if (static_cast<int>(ends.size()) < input_.steps) {
        throw Error(ErrorKind::failure,
                    fmt::format("the replay stopped in step {} of {}: ranks wait for each other",
                                ends.size() + 1, input_.steps));
      }
      out.classes[c] = {ends[ends.size() - 2], ends.back()};
      if (ends.back() > ranks_[last].step_end.back()) last = c;
    }
    out.step = out.classes[last].duration();
    if (input_.steps >= 3) {
      const auto& ends = ranks_[last].step_end;
      const Time previous = ends[ends.size() - 2] - ends[ends.size() - 3];
      const double change = std::fabs(static_cast<double>((out.step - previous).count()));
      out.steady = change <= 1e-3 * static_cast<double>(out.step.count());
    }
    std::stable_sort(slices_.begin(), slices_.end(),
                     [](const ReplaySlice& a, const ReplaySlice& b) { return a.end < b.end; });
    out.slices = std::move(slices_);
    for (std::size_t c = 1; c < work_.size(); ++c) {
      if (work_[c] > work_[static_cast<std::size_t>(out.slowest)]) out.slowest = static_cast<int>(c);
    }
    return out;
  }

  const ReplayInput& input_;
  const StepGraph& graph_;
  EventQueue<Payload> queue_;
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

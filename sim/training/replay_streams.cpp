// Hosts that issue and streams that execute in order; the events that move them.
#include <algorithm>
#include <limits>

#include "sim/training/replay_engine.hpp"

namespace foretrain {

// Of a step as many back as are kept everything has begun.
bool ReplayEngine::is_too_far_ahead(const Rank& rank, int step) {
  if (step >= ring - 1 && static_cast<int>(rank.step_end.size()) < step - (ring - 2)) return true;
  for (int s = 0; s < stream_count; ++s) {
    if (rank.streams[s].head_step <= step - ring && !rank.program->places(s).empty()) return true;
  }
  return false;
}

bool ReplayEngine::host_is_free(const Rank& rank) const {
  if (rank.next_place == 0 && is_too_far_ahead(rank, rank.next_step)) return false;
  return rank.outstanding == 0 ||
         rank.outstanding + (*rank.program)[rank.next_place].launches <= input_.queue_depth;
}

// The host issues operations until all are issued, the device's queue is full, or it is a few steps ahead.
unsigned ReplayEngine::issue(std::size_t c) {
  Rank& rank = ranks_[c];
  const ReplayProgram& program = *rank.program;
  const HostTimes& times = *rank.host_times;
  const int steps = is_ours(c) ? input_.steps : std::numeric_limits<int>::max();
  if (rank.blocked) {
    if (!host_is_free(rank)) return 0;
    rank.host = std::max(rank.host, now(c));
    rank.blocked = false;
  }
  unsigned issued = 0;
  while (rank.next_step < steps && !rank.blocked) {
    const int step = rank.next_step, first = rank.next_place, size = program.size();
    if (is_too_far_ahead(rank, step)) {
      rank.blocked = true;
      break;
    }
    // How many fit.
    int last = size;
    if (rank.outstanding + program.launches() <= input_.queue_depth) {
      rank.outstanding += program.launches_from(first);
    } else {
      for (last = first; last < size; ++last) {
        const int launches = program[last].launches;
        if (rank.outstanding > 0 && rank.outstanding + launches > input_.queue_depth) break;
        rank.outstanding += launches;
      }
      rank.blocked = last < size;
    }
    const Time begin = rank.host - times.until(first - 1);
    rank.host = begin + times.until(last - 1);
    const Time end = rank.host + input_.launch_latency;  // none of those before leaves the range of Time
    const std::int64_t shift = (end - times.until(last - 1)).count();
    Time* const can_start = rank.issued_in(step);
    const std::span<const Time> until = times.until();
    for (int place = first; place < last; ++place) {
      const auto i = static_cast<std::size_t>(place);
      can_start[i] = Time(shift + until[i].count());
    }
    if (recorded(c, step)) {
      for (int place = first; place < last; ++place) {
        const Time host = times.host(place);
        if (host.count() == 0) continue;
        slices_.push_back({static_cast<int>(c), step, place, Track::host, false,
                           begin + times.until(place - 1), begin + times.until(place), host});
      }
    }
    issued |= program.streams(first, last);
    rank.next_place = last;
    if (last < size) break;
    rank.next_place = 0;
    ++rank.next_step;
  }
  return issued;
}

void ReplayEngine::advance_host(std::size_t c) {
  const unsigned issued = issue(c);
  for (int s = 0; s < stream_count; ++s) {
    if ((issued >> s & 1u) != 0) start_next(c, s);
  }
}

// Starts the operation at the head of a stream's queue, or schedules a look at it for when it can start.
// Where it waits for another stream, the end of that one looks again.
void ReplayEngine::start_next(std::size_t c, int s) {
  Rank& rank = ranks_[c];
  Stream& stream = rank.streams[s];
  const std::span<const std::int32_t> places = rank.program->places(s);
  if (stream.busy || places.empty()) return;
  const int place = places[static_cast<std::size_t>(stream.head)];
  if (!rank.is_issued(stream.head_step, place)) return;
  const ReplayStep& op = (*rank.program)[place];
  for (const std::int32_t before : rank.program->after(op)) {
    if (!rank.is_done(stream.head_step, before)) return;
  }
  const Time here = now(c), last = rank.issued_in(stream.head_step)[place];
  const Issued head{stream.head_step, place, last - rank.host_times->between(place), last};
  if (head.first > here) {
    if (stream.look_at == head.first) return;
    stream.look_at = head.first;
    schedule(c, head.first, EventKind::stream_ready, s, static_cast<int>(c), ++stream.version);
    return;
  }
  step_on(stream.head_step, stream.head, places.size());
  stream.look_at = Time(-1);
  if (op.group >= 0) {
    stream.busy = true;
    stream.running = head;
    stream.start = here;
    ++stream.version;
    join(c, head);
    return;
  }
  begin_kernel(c, s, head, op, here);
  schedule_end(c, s);
}

void ReplayEngine::begin_kernel(std::size_t c, int s, const Issued& issued, const ReplayStep& op, Time here) {
  Rank& rank = ranks_[c];
  Stream& stream = rank.streams[s];
  stream.busy = true;
  stream.running = issued;
  stream.start = stream.updated = here;
  stream.remaining = op.device * (s == compute ? rank.compute_factor : 1.0);
  stream.slowdown = 1;
  if (s == compute && rank.collective >= 0) {
    stream.slowdown = rank.beside;
    if (rank.instance != nullptr && !rank.counted) set_computing(rank, here, +1);
  }
  // Where all has been launched, its work cannot end before its last launch.
  stream.tail = issued.last > here ? tail_of(issued, op, stream.remaining) : here;
  stream.worked = here + rounded_work(stream.remaining * stream.slowdown);
}

void ReplayEngine::schedule_end(std::size_t c, int s) {
  Stream& stream = ranks_[c].streams[s];
  schedule(c, std::max(stream.worked, stream.tail), EventKind::kernel_end, s, static_cast<int>(c),
           ++stream.version);
}

void ReplayEngine::set_slowdown(std::size_t c, double slowdown) {
  ranks_[c].beside = slowdown;
  Stream& stream = ranks_[c].streams[compute];
  if (!stream.busy || stream.slowdown == slowdown) return;
  const double passed = static_cast<double>((now(c) - stream.updated).count());
  stream.remaining = std::max(0.0, stream.remaining - passed / stream.slowdown);
  stream.updated = now(c);
  stream.slowdown = slowdown;
  stream.worked = stream.updated + rounded_work(stream.remaining * slowdown);
  schedule_end(c, compute);
}

void ReplayEngine::finish(std::size_t c, int s, const Issued& issued, Time start, Time end, Time busy,
                          bool waiting_first, Time joined_all) {
  Rank& rank = ranks_[c];
  const int step = issued.step, place = issued.place;
  if (is_ours(c) && s == compute && step == input_.steps - 1) work_[c] += busy;
  if (recorded(c, step)) {
    const Track track = s == compute         ? Track::compute
                        : s == communication ? Track::communication
                                             : Track::copy;
    if (waiting_first && joined_all > start) {
      slices_.push_back({static_cast<int>(c), step, place, track, true, start, joined_all, Time()});
    }
    slices_.push_back(
        {static_cast<int>(c), step, place, track, false, waiting_first ? joined_all : start, end, busy});
  }
  rank.outstanding -= (*rank.program)[place].launches;
  Stream& stream = rank.streams[s];
  step_on(stream.ended_step, stream.ended_place, rank.program->places(s).size());
  stream.busy = false;
  stream.ended = end;
  ++stream.version;
  if (place != rank.program->last_compute()) return;
  rank.step_end.push_back(end);
  if (is_ours(c) && static_cast<int>(rank.step_end.size()) == input_.steps) ++finished_;
}

void ReplayEngine::after_end(std::size_t c, int s, const ReplayStep& op) {
  if (ranks_[c].blocked) advance_host(c);
  const unsigned looks = op.wakes | 1u << s;
  for (int other = 0; other < stream_count; ++other) {
    if ((looks >> other & 1u) != 0) start_next(c, other);
  }
}

void ReplayEngine::end_kernel(std::size_t c, int s) {
  Rank& rank = ranks_[c];
  Stream& stream = rank.streams[s];
  const Time time = now(c);
  const ReplayStep& op = (*rank.program)[stream.running.place];
  // Busy is the kernel's own time, lengthened by what ran beside it; the rest of the interval the device
  // starved.
  finish(c, s, stream.running, stream.start, time, std::min(time, stream.worked) - stream.start, false,
         Time());
  after_end(c, s, op);
  // An instant between two kernels is no change.
  if (s == compute && rank.counted && !stream.busy) set_computing(rank, time, -1);
}

// A kernel of the compute stream that wakes nothing is followed by the next one: as long as no other event of
// the class comes before, they pass without being queued.
void ReplayEngine::end_kernels(std::size_t c) {
  Rank& rank = ranks_[c];
  Stream& stream = rank.streams[compute];
  EventQueue<Payload>& events = queues_[c];
  const ReplayProgram& program = *rank.program;
  const std::span<const std::int32_t> places = program.places(compute);
  for (;;) {
    const int step = stream.running.step, place = stream.running.place;
    const ReplayStep& ended = program[place];
    if (ended.wakes != 0 || place == program.last_compute() || recorded(c, step))
      return end_kernel(c, compute);
    const Time time = events.now();
    if (step == input_.steps - 1) work_[c] += std::min(time, stream.worked) - stream.start;
    rank.outstanding -= ended.launches;
    step_on(stream.ended_step, stream.ended_place, places.size());
    stream.busy = false;
    stream.ended = time;
    ++stream.version;
    if (rank.blocked) {
      const unsigned others = issue(c) & ~(1u << compute);
      for (int s = 0; others >> s != 0; ++s) {
        if ((others >> s & 1u) != 0) start_next(c, s);
      }
    }
    // As start_next and schedule_end do.
    bool goes_on = false;
    const int next = places[static_cast<std::size_t>(stream.head)];
    if (rank.is_issued(stream.head_step, next)) {
      const ReplayStep& op = program[next];
      const Time last = rank.issued_in(stream.head_step)[next];
      const Issued head{stream.head_step, next, last - rank.host_times->between(next), last};
      const Time start = std::max(time, head.first);
      if (op.group < 0 && op.after_begin == op.after_end &&
          (start == time || (!events.begins_before(start, after_all) && start < rank.bound.time))) {
        if (start > time) {
          if (rank.counted) set_computing(rank, time, -1);
          events.pass(start);
        }
        step_on(stream.head_step, stream.head, places.size());
        begin_kernel(c, compute, head, op, start);
        const Time end = std::max(stream.worked, stream.tail);
        if (events.begins_before(end, after_kernels) || end > rank.bound.time) {
          return schedule_end(c, compute);
        }
        events.pass(end);
        goes_on = true;
      }
    }
    if (goes_on) continue;
    start_next(c, compute);
    if (rank.counted && !stream.busy) set_computing(rank, time, -1);
    return;
  }
}

void ReplayEngine::handle(const Payload& what) {
  const auto subject = static_cast<std::size_t>(what.subject);
  switch (what.kind) {
    case EventKind::collective_start: {
      Rank& rank = ranks_[subject];
      rank.collective = rank.joined_last;
      set_slowdown(subject, instances_.at(rank.collective).timing.compute_slowdown);
      if (rank.instance != nullptr && rank.streams[compute].busy) set_computing(rank, now(subject), +1);
      return;
    }
    case EventKind::collective_end:
      if (own_clocks_) {
        leave(subject);
      } else if (const auto found = instances_.find(what.subject);
                 found != instances_.end() && found->second.version == what.version) {
        end_collective(what.subject);
      }
      return;
    case EventKind::kernel_end:
      if (ranks_[subject].streams[what.stream].version != what.version) return;
      if (own_clocks_ && what.stream == compute) return end_kernels(subject);
      return end_kernel(subject, what.stream);
    case EventKind::stream_ready:
      if (ranks_[subject].streams[what.stream].version == what.version) start_next(subject, what.stream);
      return;
  }
}

}  // namespace foretrain

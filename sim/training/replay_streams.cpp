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

// Operations of the step that the host is in, as many as the device's queue holds.
inline unsigned ReplayEngine::issue_what_fits(std::size_t c) {
  Rank& rank = ranks_[c];
  const std::span<const HostOperation> operations = rank.host_times->operations();
  Time* const can_start = rank.issued_in(rank.next_step);
  const Time begin = rank.host, latency = input_.launch_latency;
  const int first = rank.next_place, depth = input_.queue_depth;
  auto place = static_cast<std::size_t>(first);
  int outstanding = rank.outstanding;
  Time host = begin;
  unsigned issued = 0;
  for (; place < operations.size(); ++place) {
    const HostOperation& op = operations[place];
    if (outstanding > 0 && outstanding + op.launches > depth) break;
    host += op.host;
    can_start[place] = host + latency;
    outstanding += op.launches;
    issued |= op.stream;
  }
  rank.host = host;
  rank.outstanding = outstanding;
  rank.next_place = static_cast<int>(place);
  if (recorded(c, rank.next_step)) keep_issued(c, first, begin);
  return issued;
}

// The host issues operations until all are issued, the device's queue is full, or it is a few steps ahead.
inline unsigned ReplayEngine::issue(std::size_t c) {
  Rank& rank = ranks_[c];
  if (rank.blocked) rank.host = std::max(rank.host, now(c));
  rank.blocked = true;
  const unsigned issued = issue_what_fits(c);
  return rank.next_place < rank.program->size() ? issued : issued | issue_next_steps(c);
}

unsigned ReplayEngine::issue_next_steps(std::size_t c) {
  Rank& rank = ranks_[c];
  const int steps = is_ours(c) ? input_.steps : std::numeric_limits<int>::max(), size = rank.program->size();
  unsigned issued = 0;
  while (rank.next_place == size) {
    rank.next_place = 0;
    rank.blocked = ++rank.next_step < steps;
    if (!rank.blocked || is_too_far_ahead(rank, rank.next_step)) break;
    issued |= issue_what_fits(c);
  }
  return issued;
}

void ReplayEngine::keep_issued(std::size_t c, int first, Time begin) {
  const Rank& rank = ranks_[c];
  for (int place = first; place < rank.next_place; ++place) {
    const Time host = rank.host_times->operations()[static_cast<std::size_t>(place)].host, end = begin + host;
    if (host.count() != 0)
      slices_.push_back({static_cast<int>(c), rank.next_step, place, Track::host, false, begin, end, host});
    begin = end;
  }
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
  const Time first = last - rank.host_times->between(place);
  if (first > here) {
    if (stream.look_at == first) return;
    stream.look_at = first;
    schedule(c, first, EventKind::stream_ready, s, static_cast<int>(c), ++stream.version);
    return;
  }
  stream.running = {stream.head_step, place, first, last};
  step_on(stream.head_step, stream.head, places.size());
  stream.look_at = Time(-1);
  if (op.group >= 0) {
    stream.busy = true;
    stream.start = here;
    ++stream.version;
    join(c, stream.running);
    return;
  }
  begin_kernel(c, s, op, here);
  schedule_end(c, s);
}

void ReplayEngine::begin_kernel(std::size_t c, int s, const ReplayStep& op, Time here) {
  Rank& rank = ranks_[c];
  Stream& stream = rank.streams[s];
  stream.busy = true;
  stream.start = stream.updated = here;
  stream.remaining = op.device * (s == compute ? rank.compute_factor : 1.0);
  stream.slowdown = 1;
  if (s == compute && rank.collective >= 0) {
    stream.slowdown = rank.beside;
    if (rank.instance != nullptr && !rank.counted) set_computing(rank, here, +1);
  }
  // Where all has been launched, its work cannot end before its last launch.
  const Time last = stream.running.last;
  stream.tail = last > here ? tail_of(last, op.launches, stream.remaining) : here;
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
  if (const Rank& rank = ranks_[c]; rank.blocked && host_is_free(rank)) advance_host(c);
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

// A kernel of the compute stream that wakes nothing is followed by the next one of the step: as long as no
// other event of the class comes before, they pass without being queued. As end_kernel, start_next and
// schedule_end do, with what they change at hand.
void ReplayEngine::end_kernels(std::size_t c) {
  Rank& rank = ranks_[c];
  Stream& stream = rank.streams[compute];
  EventQueue<Payload>& events = queues_[c];
  const std::span<const ChainedKernel> kernels = rank.program->kernels();
  const int step = stream.running.step;
  auto k = static_cast<std::size_t>(stream.ended_place);
  if (kernels[k].ends_run || recorded(c, step)) return end_kernel(c, compute);

  const auto free_until = [&] {
    return events.empty() ? rank.bound.time : std::min(events.first_time(), rank.bound.time);
  };
  const auto issued_until = [&] { return step < rank.next_step ? rank.program->size() : rank.next_place; };
  const Time* const can_start = rank.issued_in(step);
  const bool counts_work = step == input_.steps - 1;
  const bool is_beside = rank.collective >= 0, slows_it = is_beside && rank.instance != nullptr;
  const double slowdown = is_beside ? rank.beside : 1;
  Time limit = free_until(), time = events.now(), start = stream.start, worked = stream.worked;
  int issued = issued_until();
  do {
    if (counts_work) work_[c] += std::min(time, worked) - start;
    rank.outstanding -= kernels[k].launches;
    ++k;
    if (rank.blocked && host_is_free(rank)) {
      if (const unsigned others = issue(c) & ~(1u << compute); others != 0) {
        stream.head = stream.ended_place = static_cast<int>(k);
        stream.busy = false;
        for (int s = 0; s < stream_count; ++s) {
          if ((others >> s & 1u) != 0) start_next(c, s);
        }
        limit = free_until();
      }
      issued = issued_until();
    }
    const ChainedKernel& next = kernels[k];
    if (next.waits || next.place >= issued) break;
    const Time last = can_start[next.place], first = last - rank.host_times->between(next.place);
    start = time;
    if (first > time) {
      if (first >= limit) break;
      if (rank.counted) set_computing(rank, time, -1);
      events.pass(start = first);
    }
    if (slows_it && !rank.counted) set_computing(rank, start, +1);
    const double work = next.device * rank.compute_factor;
    worked = start + rounded_work(work * slowdown);
    Time end = worked;
    if (last > start) end = std::max(end, tail_of(last, next.launches, work));
    if (end >= limit || next.ends_run) {
      stream.ended_place = static_cast<int>(k);
      stream.head = stream.ended_place;
      step_on(stream.head_step, stream.head, kernels.size());
      stream.running = {step, next.place, first, last};
      begin_kernel(c, compute, (*rank.program)[next.place], start);
      return schedule_end(c, compute);
    }
    events.pass(time = end);
  } while (true);
  stream.head = stream.ended_place = static_cast<int>(k);
  stream.busy = false;
  stream.ended = time;
  ++stream.version;
  start_next(c, compute);
  if (rank.counted && !stream.busy) set_computing(rank, time, -1);
}

void ReplayEngine::handle(const Payload& what) {
  const auto subject = static_cast<std::size_t>(what.subject);
  switch (what.kind) {
    case EventKind::collective_start: {
      if (!own_clocks_) return begin_together(what.subject, instance_of(what.subject));
      Rank& rank = ranks_[subject];
      rank.collective = rank.joined_last;
      set_slowdown(subject, instance_of(rank.collective).timing.compute_slowdown);
      if (rank.instance != nullptr && rank.streams[compute].busy) set_computing(rank, now(subject), +1);
      return;
    }
    case EventKind::collective_end:
      if (own_clocks_) {
        leave(subject);
      } else if (instance_of(what.subject).version == what.version) {
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

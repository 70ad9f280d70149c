// Hosts that issue and streams that execute in order.
#include <algorithm>
#include <limits>

#include "sim/training/replay_engine.hpp"

namespace foretrain {

void ReplayEngine::IssuedQueue::grow() {
  std::rotate(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_), items_.end());
  head_ = 0;
  items_.resize(std::max<std::size_t>(64, 4 * items_.size()));
}

// The host issues operations until all are issued, the device's queue is full, or it is a few steps ahead.
void ReplayEngine::advance_host(std::size_t c) {
  Rank& rank = ranks_[c];
  const ReplayProgram& program = *rank.program;
  const int steps = is_ours(c) ? input_.steps : std::numeric_limits<int>::max();
  if (rank.blocked) {
    rank.host = std::max(rank.host, now(c));
    rank.blocked = false;
  }
  bool issued[stream_count] = {};
  while (rank.next_step < steps) {
    const int step = rank.next_step;
    if (step >= ring - 1 && static_cast<int>(rank.step_end.size()) < step - (ring - 2)) {
      rank.blocked = true;
      break;
    }
    const bool keeps = recorded(c, step);
    int place = rank.next_place;
    for (; place < program.size(); ++place) {
      const ReplayStep& op = program[place];
      if (rank.outstanding > 0 && rank.outstanding + op.launches > input_.queue_depth) {
        rank.blocked = true;
        break;
      }
      const Time begin = rank.host;
      rank.host += op.host;
      if (keeps && op.host.count() > 0) {
        slices_.push_back({static_cast<int>(c), step, place, Track::host, false, begin, rank.host, op.host});
      }
      rank.streams[op.stream].queue.push_back(rank.host + input_.launch_latency);
      rank.is_done(step, place) = 0;
      rank.outstanding += op.launches;
      issued[op.stream] = true;
    }
    rank.next_place = place;
    if (rank.blocked) break;
    rank.next_place = 0;
    ++rank.next_step;
  }
  for (int s = 0; s < stream_count; ++s) {
    if (issued[s]) start_next(c, s);
  }
}

// Starts the operation at the head of a stream's queue, or schedules a look at it for when it can start.
// Where it waits for another stream, the end of that one looks again.
void ReplayEngine::start_next(std::size_t c, int s) {
  Rank& rank = ranks_[c];
  Stream& stream = rank.streams[s];
  if (stream.busy || stream.queue.empty()) return;
  const std::span<const std::int32_t> places = rank.program->places(s);
  const int place = places[static_cast<std::size_t>(stream.head)];
  const ReplayStep& op = (*rank.program)[place];
  for (const std::int32_t before : rank.program->after(op)) {
    if (rank.is_done(stream.head_step, before) == 0) return;
  }
  const Time here = now(c), last = stream.queue.front();
  const Issued head{stream.head_step, place, last - op.host + op.first, last};
  if (head.first > here) {
    if (stream.look_at == head.first) return;
    stream.look_at = head.first;
    schedule(c, head.first, EventKind::stream_ready, s, static_cast<int>(c), ++stream.version);
    return;
  }
  stream.queue.pop_front();
  if (++stream.head == static_cast<int>(places.size())) {
    stream.head = 0;
    ++stream.head_step;
  }
  stream.busy = true;
  stream.look_at = Time(-1);
  stream.running = head;
  stream.start = here;
  ++stream.version;
  if (op.group >= 0) {
    join(c, head);
    return;
  }
  const bool is_compute = s == static_cast<int>(StreamId::compute);
  stream.remaining = op.device * (is_compute ? rank.compute_factor : 1.0);
  stream.updated = here;
  stream.tail = head.last + rounded_work(op.launches > 1 ? stream.remaining / op.launches : stream.remaining);
  stream.slowdown = 1;
  if (is_compute && rank.collective >= 0) {
    stream.slowdown = rank.beside;
    set_computing(rank.collective, +1);
  }
  schedule_end(c, s);
}

void ReplayEngine::schedule_end(std::size_t c, int s) {
  Stream& stream = ranks_[c].streams[s];
  const Time end = now(c) + rounded_work(stream.remaining * stream.slowdown);
  schedule(c, std::max(end, stream.tail), EventKind::kernel_end, s, static_cast<int>(c), ++stream.version);
}

void ReplayEngine::set_slowdown(std::size_t c, double slowdown) {
  ranks_[c].beside = slowdown;
  Stream& stream = ranks_[c].streams[static_cast<int>(StreamId::compute)];
  if (!stream.busy || stream.slowdown == slowdown) return;
  const double passed = static_cast<double>((now(c) - stream.updated).count());
  stream.remaining = std::max(0.0, stream.remaining - passed / stream.slowdown);
  stream.updated = now(c);
  stream.slowdown = slowdown;
  schedule_end(c, static_cast<int>(StreamId::compute));
}

void ReplayEngine::finish(std::size_t c, int s, const Issued& issued, Time start, Time end, Time busy,
                          bool waiting_first, Time joined_all) {
  Rank& rank = ranks_[c];
  const int step = issued.step, place = issued.place;
  if (is_ours(c) && s == static_cast<int>(StreamId::compute) && step == input_.steps - 1) work_[c] += busy;
  if (recorded(c, step)) {
    const Track track = s == static_cast<int>(StreamId::compute)         ? Track::compute
                        : s == static_cast<int>(StreamId::communication) ? Track::communication
                                                                         : Track::copy;
    if (waiting_first && joined_all > start) {
      slices_.push_back({static_cast<int>(c), step, place, track, true, start, joined_all, Time()});
    }
    slices_.push_back(
        {static_cast<int>(c), step, place, track, false, waiting_first ? joined_all : start, end, busy});
  }
  rank.is_done(step, place) = 1;
  rank.outstanding -= (*rank.program)[place].launches;
  Stream& stream = rank.streams[s];
  stream.busy = false;
  stream.ended = end;
  ++stream.version;
  if (place != rank.program->last_compute()) return;
  rank.step_end.push_back(end);
  if (is_ours(c) && static_cast<int>(rank.step_end.size()) == input_.steps) ++finished_;
}

void ReplayEngine::after_end(std::size_t c) {
  if (ranks_[c].blocked) advance_host(c);
  for (int s = 0; s < stream_count; ++s) start_next(c, s);
}

void ReplayEngine::end_kernel(std::size_t c, int s) {
  Stream& stream = ranks_[c].streams[s];
  const Time time = now(c);
  // Busy is the kernel's own time, lengthened by what ran beside it; the rest of the interval the device
  // starved.
  const Time worked = stream.updated + rounded_work(stream.remaining * stream.slowdown);
  const int beside = ranks_[c].collective;
  finish(c, s, stream.running, stream.start, time, std::min(time, worked) - stream.start, false, Time());
  after_end(c);
  // The next kernel, where there is one, has been counted already: an instant between two kernels is no
  // change.
  if (s == static_cast<int>(StreamId::compute) && beside >= 0) set_computing(beside, -1);
}

}  // namespace foretrain

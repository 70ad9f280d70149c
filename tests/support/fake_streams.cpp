#include "tests/support/fake_streams.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "sim/base/error.hpp"

namespace foretrain::test {
namespace {
constexpr double forever = std::numeric_limits<double>::infinity();
}

FakeStreams::FakeStreams(FakeBackend& backend, FakeClock& clock, int device)
    : backend_(backend),
      clock_(clock),
      device_(device),
      random_(backend.script.seed, {static_cast<std::uint64_t>(device)}) {}

double FakeStreams::speed() const {
  const FakeScript& script = backend_.script;
  const double drift = script.drift ? script.drift(clock_.unread()) : 1;
  return drift * (1 + (script.cold_speed - 1) * std::exp(-busy_seconds_ / script.warm_seconds));
}

void FakeStreams::enqueue(device::StreamKind kind, FakeOperation operation, bool counts) {
  FakeStream& stream = at(kind);
  if (counts) {
    // The driver takes so many launches; then the host blocks until the oldest has run.
    pump(clock_.unread());
    const auto waiting = [&] {
      while (!stream.ends.empty() && stream.ends.front() <= clock_.unread()) stream.ends.pop_front();
      return stream.pending.size() + stream.ends.size();
    };
    while (waiting() >= static_cast<std::size_t>(backend_.script.queue_depth)) {
      if (stream.ends.empty()) {
        if (stream.gate_closed) {
          clock_.not_before(*stream.gate_closed + stream.gate_limit);
          stream.gate_opened = clock_.unread();
          stream.gate_closed.reset();
          ++backend_.gates_that_opened_themselves;
        }
        await([&] {
          pump(forever);
          return !stream.ends.empty();
        });
      }
      clock_.not_before(stream.ends.front());
    }
  }
  operation.issued = clock_.unread();
  stream.pending.push_back(std::move(operation));
}

void FakeStreams::launch(device::StreamKind stream, double device_seconds, double host_seconds) {
  clock_.advance(host_seconds);
  const FakeScript& script = backend_.script;
  double seconds = device_seconds;
  if (script.device_sigma > 0) seconds *= std::exp(script.device_sigma * random_.normal());
  if (script.device_tail_probability > 0 && random_.uniform() < script.device_tail_probability)
    seconds *= script.device_tail_factor;
  FakeOperation operation;
  operation.kind = FakeOperation::Kind::kernel;
  operation.seconds = seconds;
  enqueue(stream, std::move(operation), true);
}

int FakeStreams::make_event() {
  events_.emplace_back();
  return static_cast<int>(events_.size()) - 1;
}

void FakeStreams::record(int event, device::StreamKind stream) {
  clock_.advance(backend_.script.event_host);
  FakeOperation operation;
  operation.kind = FakeOperation::Kind::event;
  operation.time = std::make_shared<std::optional<double>>();
  events_.at(static_cast<std::size_t>(event)) = operation.time;
  enqueue(stream, std::move(operation), false);
}

void FakeStreams::wait(device::StreamKind stream, int event) {
  clock_.advance(backend_.script.event_host);
  FakeOperation operation;
  operation.kind = FakeOperation::Kind::wait;
  operation.time = events_.at(static_cast<std::size_t>(event));
  enqueue(stream, std::move(operation), false);
}

void FakeStreams::collective(FakeRing& ring, std::size_t call, std::function<double(int)> duration) {
  FakeOperation operation;
  operation.kind = FakeOperation::Kind::collective;
  operation.ring = &ring;
  operation.call = call;
  operation.duration = std::move(duration);
  enqueue(device::StreamKind::communication, std::move(operation), true);
}

// Start of the stream's next operation, as far as it is known; nothing where it waits for something open.
std::optional<double> FakeStreams::earliest(FakeStream& stream) {
  if (stream.pending.empty() || stream.gate_closed) return std::nullopt;
  const FakeScript& script = backend_.script;
  const FakeOperation& next = stream.pending.front();
  const double ready = std::max(stream.ready, stream.gate_opened);
  switch (next.kind) {
    case FakeOperation::Kind::kernel:
    case FakeOperation::Kind::collective:
      return std::max(ready + script.gap, next.issued + script.launch_latency);
    case FakeOperation::Kind::event:
      return std::max(ready, next.issued + 1e-6);
    case FakeOperation::Kind::wait: {
      if (!next.time) return ready;  // never recorded
      if (!*next.time) return std::nullopt;
      // Where the event lies in the past the wait costs nothing.
      return **next.time > ready ? **next.time + script.wait_device : ready;
    }
  }
  return std::nullopt;
}

bool FakeStreams::runs_beside(const FakeStream& stream, double time) const {
  for (auto it = stream.busy.rbegin(); it != stream.busy.rend(); ++it)
    if (time >= it->first) return time < it->second;
  return false;
}

// Fixes the times of the stream's next operation. False where another rank has yet to come.
bool FakeStreams::resolve(FakeStream& stream, double start) {
  const FakeScript& script = backend_.script;
  FakeOperation& next = stream.pending.front();
  const FakeStream& compute = at(device::StreamKind::compute);
  const FakeStream& communication = at(device::StreamKind::communication);
  if (next.kind == FakeOperation::Kind::kernel) {
    double seconds = next.seconds / speed();
    if (&stream == &compute && runs_beside(communication, start)) seconds *= script.compute_slowdown;
    stream.ready = start + seconds;
    stream.ends.push_back(stream.ready);
    stream.busy.emplace_back(start, stream.ready);
    busy_seconds_ += seconds;
  } else if (next.kind == FakeOperation::Kind::event) {
    *next.time = start;
    stream.ready = start + script.event_device;
  } else if (next.kind == FakeOperation::Kind::wait) {
    stream.ready = start;
  } else {
    FakeRing& ring = *next.ring;
    const std::scoped_lock lock(ring.mutex);
    FakeMeeting& meeting = ring.meetings[next.call];
    if (!next.arrived) {
      next.arrived = true;
      meeting.start = std::max(meeting.start, start);
      if (++meeting.arrived == ring.ranks) {
        double seconds = next.duration(ring.ranks);
        if (runs_beside(compute, meeting.start)) seconds *= script.collective_slowdown;
        meeting.end = meeting.start + seconds;
        ring.changed.notify_all();
      }
    }
    if (!meeting.end) {
      waiting_on_ = &ring;
      return false;
    }
    stream.busy.emplace_back(meeting.start, *meeting.end);
    stream.ready = *meeting.end;
    stream.ends.push_back(stream.ready);
  }
  stream.pending.pop_front();
  return true;
}

// Resolves operations in the order of their starts as far as `until`.
void FakeStreams::pump(double until) {
  waiting_on_ = nullptr;
  while (true) {
    FakeStream* first = nullptr;
    double start = forever;
    for (FakeStream& stream : streams_) {
      const std::optional<double> time = earliest(stream);
      if (time && *time < start) {
        first = &stream;
        start = *time;
      }
    }
    if (!first || start > until || !resolve(*first, start)) return;
  }
}

// Waits in real time for other ranks' threads.
void FakeStreams::await(const std::function<bool()>& ready) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ready()) {
    if (!waiting_on_) throw Error(ErrorKind::failure, "fake backend: waits for work that was never issued");
    std::unique_lock lock(waiting_on_->mutex);
    if (waiting_on_->broken) throw Error(ErrorKind::failure, "fake backend: communicator aborted");
    if (std::chrono::steady_clock::now() > deadline)
      throw Error(ErrorKind::failure, "fake backend: another rank never came");
    waiting_on_->changed.wait_for(lock, std::chrono::milliseconds(1));
  }
}

bool FakeStreams::reached(int event) {
  clock_.advance(backend_.script.poll_host);
  pump(clock_.unread());
  const std::shared_ptr<std::optional<double>> time = events_.at(static_cast<std::size_t>(event));
  if (!time) return true;  // never recorded, as CUDA has it
  if (!*time && waiting_on_) {
    // Another rank's thread is behind in real time: wait, for a poll's outcome must not depend on it.
    FakeRing* const ring = waiting_on_;
    std::unique_lock lock(ring->mutex);
    if (ring->broken) throw Error(ErrorKind::failure, "fake backend: communicator aborted");
    ring->changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  return *time && **time <= clock_.unread();
}

double FakeStreams::time_of(int event) {
  const std::shared_ptr<std::optional<double>> time = events_.at(static_cast<std::size_t>(event));
  if (!time || !*time || **time > clock_.unread())
    throw Error(ErrorKind::failure, "fake backend: event not reached");
  return **time;
}

void FakeStreams::finish(device::StreamKind kind) {
  FakeStream& stream = at(kind);
  if (stream.gate_closed && !stream.pending.empty()) {
    clock_.not_before(*stream.gate_closed + stream.gate_limit);
    stream.gate_opened = clock_.unread();
    stream.gate_closed.reset();
    ++backend_.gates_that_opened_themselves;
  }
  await([&] {
    pump(forever);
    return stream.pending.empty();
  });
  clock_.not_before(stream.ready);
}

void FakeStreams::close_gate(device::StreamKind stream, double most_seconds) {
  at(stream).gate_closed = clock_.unread();
  at(stream).gate_limit = most_seconds;
}

void FakeStreams::open_gate() {
  clock_.advance(1e-6);
  for (FakeStream& stream : streams_) {
    if (!stream.gate_closed) continue;
    if (clock_.unread() > *stream.gate_closed + stream.gate_limit) ++backend_.gates_that_opened_themselves;
    stream.gate_closed.reset();
    stream.gate_opened = clock_.unread();
  }
  pump(clock_.unread());
}

}  // namespace foretrain::test

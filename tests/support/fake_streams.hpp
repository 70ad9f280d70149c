// The fake backend's streams: operations with host times, resolved into device times as soon as nothing they
// depend on is open.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/support/fake_backend.hpp"

namespace foretrain::test {

// One collective call of all ranks of a communicator: ranks bring their arrival, the last fixes the end.
struct FakeMeeting {
  int arrived = 0;
  double start = 0;
  std::optional<double> end;
};

// Shared by the ranks of one communicator.
struct FakeRing {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0;
  int joined = 0;
  bool broken = false;
  std::string algorithm, protocol;
  std::map<std::size_t, FakeMeeting> meetings;  // by the number of the call
};

struct FakeOperation {
  enum class Kind { kernel, event, wait, collective } kind = Kind::kernel;
  double issued = 0;   // host time at which the call returned
  double seconds = 0;  // kernel
  // Of the recording that an event or wait means: an event may be recorded again before it is waited for.
  std::shared_ptr<std::optional<double>> time;
  FakeRing* ring = nullptr;
  std::size_t call = 0;
  bool arrived = false;
  std::function<double(int ranks)> duration;  // collective
};

struct FakeStream {
  std::deque<FakeOperation> pending;
  std::deque<double> ends;  // of resolved launches, ascending
  double ready = 0;
  double begin = 0;                   // of the last operation that took time
  std::optional<double> gate_closed;  // host time; nothing starts
  double gate_limit = 1;              // seconds after which it opens itself
  double gate_opened = 0;
  std::vector<std::pair<double, double>> busy;  // kernels and collectives
};

class FakeStreams {
 public:
  FakeStreams(FakeBackend& backend, FakeClock& clock, int device);

  void launch(device::StreamKind stream, double device_seconds, double host_seconds);
  int make_event();
  void record(int event, device::StreamKind stream);
  void wait(device::StreamKind stream, int event);
  bool reached(int event);
  double time_of(int event);
  void finish(device::StreamKind stream);
  void close_gate(device::StreamKind stream, double most_seconds);
  void open_gate();
  void collective(FakeRing& ring, std::size_t call, std::function<double(int)> duration);
  double busy_seconds() const { return busy_seconds_; }
  double speed() const;
  FakeClock& clock() { return clock_; }

 private:
  FakeStream& at(device::StreamKind kind) { return streams_[static_cast<std::size_t>(kind)]; }
  void enqueue(device::StreamKind stream, FakeOperation operation, bool counts);
  void pump(double until);
  std::optional<double> earliest(FakeStream& stream);
  bool resolve(FakeStream& stream, double start);
  bool runs_beside(const FakeStream& stream, double time) const;
  void await(const std::function<bool()>& ready);

  FakeBackend& backend_;
  FakeClock& clock_;
  int device_;
  std::array<FakeStream, 3> streams_;
  std::vector<std::shared_ptr<std::optional<double>>> events_;  // of the latest recording
  FakeRing* waiting_on_ = nullptr;
  double busy_seconds_ = 0;
  RandomStream random_;
};

}  // namespace foretrain::test

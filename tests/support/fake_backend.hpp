// A backend of numbers: a simulated host clock, streams, events, a launch queue and collectives whose times
// are scripted, so that what calibration finds can be held against what was put in.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/clock.hpp"
#include "device/backend.hpp"

namespace foretrain::test {

struct FakeTiming {
  double device = 0;  // seconds from the end of the work before to the end of this in a full queue
  double host = 0;
  int launches = 1;
};

struct FakeChoice {
  std::string text;  // "RING LL 8"
  double seconds = 0;
};

struct FakeScript {
  int devices = 1;
  std::string name = "reference", gpu = "Fake 1";
  double launch_host = 4e-6;     // host time of a launch
  double launch_latency = 5e-6;  // from the launch call's end to the start on an idle device
  double gap = 1e-6;             // between two kernels of a full queue
  double empty_kernel = 1.5e-6;  // without the gap
  double event_host = 0.6e-6;
  double event_device = 1.2e-6;  // what an event between two kernels adds
  double wait_device = 2e-6;     // from an event to the start on another stream
  double poll_host = 0.4e-6;
  double clock_reading = 0.03e-6;
  int queue_depth = 1024;
  std::function<FakeTiming(const Model&, const device::WorkItem&, std::int64_t batch)> item;
  FakeTiming prepare{20e-6, 5e-6, 1}, zero{10e-6, 5e-6, 1}, update{100e-6, 10e-6, 2};
  double device_sigma = 0, host_sigma = 0;  // of the logarithm, an item's
  double device_tail_probability = 0, device_tail_factor = 1;
  std::uint64_t seed = 1;
  // Speed of the device over busy time: from cold_speed to 1 with time constant warm_seconds.
  double cold_speed = 1, warm_seconds = 0.1;
  std::function<double(double now)> drift;  // of all devices: factor on their times by the clock
  bool throttled = false;
  std::function<double(double learning_rate)> loss;  // 1 where it is not set
  double copy_rate = 20e9, copy_latency = 5e-6;
  std::function<FakeChoice(device::CollectiveKind, std::int64_t bytes, int ranks,
                           const std::string& algorithm, const std::string& protocol)>
      collective;
  double collective_host = 8e-6;
  double compute_slowdown = 1, collective_slowdown = 1;  // while both streams run
  bool names_choice = true;
  std::function<void(const std::string& call, int device)> before;  // may throw
};

// Seconds of a thread's host; the thread that made it sees the latest of all threads.
class FakeClock : public calibrate::Clock {
 public:
  FakeClock();
  double now() override;
  double unread();  // the same for nothing, where a device looks at its own
  void pause() override { advance(4e-6); }
  void rest(double seconds) override { advance(seconds); }
  void not_before(double seconds) override;
  void advance(double seconds);
  double reading = 0;  // what now() costs

 private:
  double& mine();
  std::mutex mutex_;
  std::map<std::size_t, double> times_;
  std::size_t owner_;
};

class FakeBackend : public device::Backend {
 public:
  FakeBackend(FakeScript given, FakeClock& clock);
  ~FakeBackend() override;

  std::string name() const override { return script.name; }
  int device_count() override { return script.devices; }
  Machine machine() override;
  device::Clocks clocks(int device) override;
  std::unique_ptr<device::Worker> make_worker(int device) override;
  device::CommunicatorId make_communicator_id() override;

  // For the tests: what happened.
  std::atomic<int> gates_that_opened_themselves{0};
  std::atomic<int> communicators{0};
  std::atomic<int> searches{0};

  FakeScript script;

 private:
  friend class FakeWorker;
  friend class FakeCommunicator;
  struct Shared;
  FakeClock& clock_;
  std::unique_ptr<Shared> shared_;
};

// Times of an item when a test does not care: some microseconds a sample, different for each layer.
FakeTiming plain_timing(const Model& model, const device::WorkItem& item, std::int64_t batch);

}  // namespace foretrain::test

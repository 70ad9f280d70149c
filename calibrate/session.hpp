// What every measurement needs: the worker, the clock, and whether the user has had enough.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/clock.hpp"
#include "calibrate/rank_group.hpp"
#include "device/backend.hpp"

namespace foretrain::calibrate {

// Thrown where a measurement was cut short by the user; what was finished before stays.
struct Interrupted {};

struct Session {
  device::Worker& worker;
  Clock& clock;
  const std::atomic<bool>* stop = nullptr;
  RankGroup* group = nullptr;  // where several ranks measure together

  bool stopped() const { return stop && stop->load(std::memory_order_relaxed); }
  void check() const {
    if (stopped()) throw Interrupted();
  }
};

// Polls until the event has been reached. Throws Interrupted, or Error where another rank has failed.
void await(Session& session, device::Event event);

// Events made once and used again.
class EventPool {
 public:
  explicit EventPool(device::Worker& worker) : worker_(worker) {}
  device::Event take();
  void reset() { used_ = 0; }

 private:
  device::Worker& worker_;
  std::vector<device::Event> events_;
  std::size_t used_ = 0;
};

// Closes the compute stream behind a gate and a short kernel: when the gate opens, that kernel runs while the
// device reads ahead in its queue, so that what follows starts from a full queue.
void hold_compute(device::Worker& worker, double most_seconds = 1);

}  // namespace foretrain::calibrate

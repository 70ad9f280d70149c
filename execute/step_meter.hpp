// Times every step of one rank by events, and on every k-th step the phases and buckets in it as well.
//
// A step lasts from the end of the step before to its own end on the compute stream. The host may run a few
// steps ahead, as it would without measurement, and only polls events that lie that far back: the device's
// queue does not run dry.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "execute/trainer.hpp"

namespace foretrain {

struct StepTiming {
  double step = 0;       // device clock
  double step_host = 0;  // host clock, between the moments at which the ends were seen
  bool has_phases = false;
  double forward = 0, backward = 0, exposed_communication = 0, optimizer = 0;
  std::vector<double> ready, finished;  // of the buckets, since the step began
};

class StepMeter {
 public:
  // Steps that the host may be ahead of the device.
  static constexpr int run_ahead = 3;
  using Sink = std::function<void(const StepTiming&)>;
  // interrupted() is asked while waiting; it throws to end the wait. Finished steps go to `sink` in order.
  // pause() passes the time between two polls; empty: a short sleep.
  StepMeter(device::Worker& worker, Trainer& trainer, std::function<void()> interrupted, Sink sink,
            std::function<void()> pause = {});

  // The next step begins now: what ran since the last one belongs to none. Drains.
  void restart();
  // Waits until there is room; the marks are those of the next step.
  const StepMarks& begin_step(bool phases);
  void step_issued() { ++issued_; }
  void drain();

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t slot(std::int64_t step) const { return static_cast<std::size_t>(step) % marks_.size(); }
  void harvest();
  void await(device::Event event);
  StepTiming read(const StepMarks& marks, device::Event begin);

  device::Worker& worker_;
  const Trainer& trainer_;
  std::function<void()> interrupted_;
  Sink sink_;
  std::function<void()> pause_;
  std::vector<StepMarks> marks_;
  device::Event start_;
  Clock::time_point seen_;
  std::int64_t issued_ = 0, harvested_ = 0;
  bool first_after_restart_ = true;
};

}  // namespace foretrain

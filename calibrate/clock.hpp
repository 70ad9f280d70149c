// The host's clock as calibration sees it. A test gives a simulated one.
#pragma once

namespace foretrain::calibrate {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() = 0;               // seconds since some start, never decreasing
  virtual void pause() = 0;               // between two polls
  virtual void rest(double seconds) = 0;  // sleeps about so long
  // All ranks have met at time `seconds`. Real clocks know already; a simulated clock a thread catches up.
  virtual void not_before(double seconds) = 0;
};

// std::chrono::steady_clock.
Clock& steady_clock();

// What one reading costs: the median difference of two readings in a row, in seconds.
double reading_cost(Clock& clock);

}  // namespace foretrain::calibrate

#include "calibrate/clock.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace foretrain::calibrate {
namespace {

class SteadyClock : public Clock {
 public:
  double now() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  void pause() override { std::this_thread::yield(); }
  void rest(double seconds) override { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
  void not_before(double) override {}

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Clock& steady_clock() {
  static SteadyClock clock;
  return clock;
}

double reading_cost(Clock& clock) {
  std::vector<double> readings(1001);
  for (double& reading : readings) reading = clock.now();
  // A median, for a reading that is interrupted costs much more.
  for (std::size_t i = readings.size() - 1; i > 0; --i) readings[i] -= readings[i - 1];
  const auto middle = readings.begin() + 501;
  std::nth_element(readings.begin() + 1, middle, readings.end());
  return *middle;
}

}  // namespace foretrain::calibrate

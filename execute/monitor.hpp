// Samples devices, process and network beside a run.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "device/backend.hpp"
#include "execute/run_record.hpp"

namespace foretrain {

class Monitor {
 public:
  // Samples every `interval` seconds until stop(); times count from `begin`.
  Monitor(device::Backend& backend, std::vector<int> devices, int node, double interval,
          std::chrono::steady_clock::time_point begin);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // While paused it samples nothing: for the measurement of its own cost.
  void pause(bool paused) { paused_ = paused; }
  // Processes whose use counts beside this one's: those of the node's other ranks.
  void watch(std::vector<int> processes);
  // Ends sampling. A series for everything that answered, times from the first counted step on.
  std::vector<MonitorSeries> stop(double first_counted);
  // After stop(): why a device's clock was held back, at which times; "power cap, thermal" is two reasons.
  struct Throttle {
    double time = 0;
    int device = 0;
    std::string reasons;
  };
  const std::vector<Throttle>& throttles() const { return throttles_; }

 private:
  void sample(const std::vector<int>& watched);
  void run(double interval);
  MonitorSeries& series(const char* what, const char* unit, int device);

  device::Backend& backend_;
  std::vector<int> devices_;
  int node_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<MonitorSeries> series_;
  std::vector<Throttle> throttles_;
  double cpu_before_ = 0, sent_before_ = 0, received_before_ = 0, time_before_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::atomic<bool> paused_{false};
  std::vector<int> watched_;
  bool watches_others_ = false;  // since the last sample
  std::thread thread_;
};

// Each device's clocks between the first counted step and `end` seconds after it. Empty where no clock was
// told.
std::vector<ClockRecord> clock_records(const std::vector<MonitorSeries>& series,
                                       const std::vector<Monitor::Throttle>& throttles, double end);

}  // namespace foretrain

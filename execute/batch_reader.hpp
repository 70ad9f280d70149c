// Batches made ready by a thread of their own while the device computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "execute/data_source.hpp"

namespace foretrain {

class BatchReader {
 public:
  static constexpr std::size_t ahead = 4;  // batches that are kept ready
  // Reads one batch after another: first, then next(place), ...
  BatchReader(const DataSource& source, BatchPlace first, std::function<void(BatchPlace&)> next);
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  // Calls use(batch) with the next one; waits for it where it is not ready. Throws what reading it threw.
  void take(const std::function<void(const Batch&)>& use);
  std::int64_t waits() const { return waits_; }  // how often a batch was not ready

 private:
  void read();

  const DataSource& source_;
  BatchPlace place_;
  std::function<void(BatchPlace&)> next_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_, spare_;
  std::exception_ptr error_;
  bool stopped_ = false;
  std::int64_t waits_ = 0;
  std::thread thread_;
};

}  // namespace foretrain

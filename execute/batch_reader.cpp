#include "execute/batch_reader.hpp"

namespace foretrain {

BatchReader::BatchReader(const DataSource& source, BatchPlace first, std::function<void(BatchPlace&)> next)
    : source_(source), place_(first), next_(std::move(next)), spare_(ahead), thread_([this] { read(); }) {}

BatchReader::~BatchReader() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void BatchReader::read() {
  try {
    for (;;) {
      Batch batch;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !spare_.empty() || stopped_; });
        if (stopped_) return;
        batch = std::move(spare_.front());
        spare_.pop_front();
      }
      source_.fill(place_, batch);
      next_(place_);
      const std::scoped_lock lock(mutex_);
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

void BatchReader::take(const std::function<void(const Batch&)>& use) {
  Batch batch;
  {
    std::unique_lock lock(mutex_);
    if (ready_.empty()) ++waits_;
    changed_.wait(lock, [this] { return !ready_.empty() || error_; });
    if (ready_.empty()) std::rethrow_exception(error_);
    batch = std::move(ready_.front());
    ready_.pop_front();
  }
  use(batch);
  const std::scoped_lock lock(mutex_);
  spare_.push_back(std::move(batch));
  changed_.notify_all();
}

}  // namespace foretrain

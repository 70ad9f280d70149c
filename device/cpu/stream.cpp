#include "device/cpu/stream.hpp"

#include <utility>

namespace foretrain::device::cpu {

Stream::Stream(Task begin) : thread_([this, first = std::move(begin)] { work(first); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  filled_.notify_all();
  thread_.join();
}

void Stream::enqueue(Task task, bool always) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(task), always});
  }
  filled_.notify_one();
}

void Stream::synchronize() {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [this] { return queue_.empty() && !is_running_; });
  if (failure_) std::rethrow_exception(failure_);
}

void Stream::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Stream::run(Task task) {
  enqueue(std::move(task));
  synchronize();
}

void Stream::work(const Task& begin) {
  const auto attempt = [this](const Task& task) {
    try {
      task();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  };
  if (begin) attempt(begin);
  for (;;) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      is_running_ = false;
      if (queue_.empty()) emptied_.notify_all();
      filled_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (ends_) return;
      entry = std::move(queue_.front());
      queue_.pop_front();
      is_running_ = true;
      if (failure_ && !entry.always) continue;
    }
    attempt(entry.task);
  }
}

}  // namespace foretrain::device::cpu

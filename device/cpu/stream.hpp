// A stream: a thread that runs what it is given, one task after another.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace foretrain::device::cpu {

class Stream {
 public:
  using Task = std::function<void()>;

  // `begin` runs first, on the stream's own thread.
  explicit Stream(Task begin = {});
  // Waits for the task that runs; those behind it are dropped.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // After a task has thrown those behind it are skipped, except the ones that run `always` (events: others
  // wait for them).
  void enqueue(Task task, bool always = false);
  // Until all that was enqueued has run. Throws what a task threw.
  void synchronize();
  // Throws what a task threw, now and ever after.
  void check();
  // Enqueues and waits.
  void run(Task task);

 private:
  struct Entry {
    Task task;
    bool always = false;
  };
  void work(const Task& begin);

  std::mutex mutex_;
  std::condition_variable filled_, emptied_;
  std::deque<Entry> queue_;
  bool is_running_ = true, ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it reads the others
};

}  // namespace foretrain::device::cpu

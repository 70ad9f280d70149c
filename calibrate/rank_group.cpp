#include "calibrate/rank_group.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "sim/base/error.hpp"

namespace foretrain::calibrate {
namespace {

// What the threads share: a meeting that all must reach before any leaves.
struct Meeting {
  explicit Meeting(int count) : ranks(count), values(static_cast<std::size_t>(count)) {}

  // All bring, and once all have brought, all take.
  template <typename Bring, typename Take>
  void meet(Bring bring, Take take) {
    std::unique_lock lock(mutex);
    if (failed) throw_failed();
    bring();
    const std::size_t mine = round;
    if (++arrived == ranks) {
      arrived = 0;
      ++round;
      leaving = ranks;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return round != mine || failed; });
      if (round == mine) throw_failed();
    }
    take();
    // Nobody may bring the next value before all have taken this one.
    if (--leaving == 0) changed.notify_all();
    changed.wait(lock, [&] { return leaving == 0 || failed; });
  }

  [[noreturn]] static void throw_failed() {
    throw Error(ErrorKind::failure, "another rank of the measurement failed");
  }

  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0, leaving = 0;
  std::size_t round = 0;
  bool failed = false;
  std::vector<double> values;
  std::vector<std::byte> bytes;
  double latest = 0;
};

class ThreadGroup : public RankGroup {
 public:
  ThreadGroup(Meeting& meeting, Clock& clock, int rank) : meeting_(meeting), clock_(clock), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return meeting_.ranks; }
  bool failed() override {
    const std::scoped_lock lock(meeting_.mutex);
    return meeting_.failed;
  }

  std::vector<double> all_gather(double value) override {
    std::vector<double> result;
    exchange([&] { meeting_.values[static_cast<std::size_t>(rank_)] = value; },
             [&] { result = meeting_.values; });
    return result;
  }

  std::vector<std::byte> broadcast(std::vector<std::byte> from_rank_0) override {
    std::vector<std::byte> result;
    exchange(
        [&] {
          if (rank_ == 0) meeting_.bytes = std::move(from_rank_0);
        },
        [&] { result = meeting_.bytes; });
    return result;
  }

 private:
  template <typename Bring, typename Take>
  void exchange(Bring bring, Take take) {
    const double now = clock_.now();
    double latest = 0;
    meeting_.meet(
        [&] {
          bring();
          meeting_.latest = std::max(meeting_.latest, now);
        },
        [&] {
          take();
          latest = meeting_.latest;
        });
    clock_.not_before(latest);
  }

  Meeting& meeting_;
  Clock& clock_;
  int rank_;
};

}  // namespace

double RankGroup::greatest(double value) {
  const std::vector<double> values = all_gather(value);
  return *std::max_element(values.begin(), values.end());
}

double RankGroup::least(double value) {
  const std::vector<double> values = all_gather(value);
  return *std::min_element(values.begin(), values.end());
}

void run_ranks(int ranks, Clock& clock, const std::function<void(RankGroup&)>& work) {
  Meeting meeting(ranks);
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadGroup group(meeting, clock, rank);
      try {
        work(group);
      } catch (...) {
        const std::scoped_lock lock(meeting.mutex);
        if (!meeting.failed) first = std::current_exception();
        meeting.failed = true;
        meeting.changed.notify_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace foretrain::calibrate

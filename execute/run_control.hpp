// What the ranks of one process share while they train: whether to go on, how far each has come, and the
// communicators that a watchdog aborts when one of them fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "device/backend.hpp"
#include "execute/peer_processes.hpp"

namespace foretrain {

// Thrown in a rank where another has failed or the run was stopped: no error of its own.
struct Stopped {};

class RunControl {
 public:
  explicit RunControl(int local_ranks) : ranks_(static_cast<std::size_t>(local_ranks)) {}

  // --- by the ranks
  // Asked before step `step` (counted from the first warm-up step) is issued. After stop_soon() all local
  // ranks stop at the same step.
  bool may_issue(std::int64_t step);
  void check() const {
    if (aborted_.load(std::memory_order_relaxed)) throw Stopped();
  }
  // Only in a timed stage does the watchdog's limit count: a search for convolution plans may take long.
  void set_stage(int local, const char* stage, bool timed = true);
  void progressed(int local);
  void finished_step(int local);
  void set_communicator(int local, device::Communicator* communicator);
  void set_peers(PeerProcesses peers);  // of all ranks, once they have met
  void fail(int local, int rank, std::exception_ptr error);
  void ended(int local);

  // --- by the watchdog
  void stop_soon();
  void abort();  // all communicators; ranks that wait throw
  bool all_ended() const;
  bool failed() const;
  bool stopping() const { return stopping_.load(); }
  const std::atomic<bool>& aborted() const { return aborted_; }
  std::int64_t progress(int local) const;
  std::int64_t steps(int local) const;  // finished
  std::string stage(int local) const;
  bool is_timed(int local) const;
  bool has_ended(int local) const;
  void check_communicators();  // throws what the library reports
  PeerProcesses peers() const;
  void rethrow() const;  // the first failure, if there is one

 private:
  struct Rank {
    std::atomic<std::int64_t> progress{0}, steps{0};
    std::atomic<const char*> stage{"starting"};
    std::atomic<bool> timed{true}, ended{false};
    device::Communicator* communicator = nullptr;
  };
  Rank& at(int local) { return ranks_[static_cast<std::size_t>(local)]; }
  const Rank& at(int local) const { return ranks_[static_cast<std::size_t>(local)]; }

  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::atomic<bool> aborted_{false}, stopping_{false};
  std::int64_t highest_issued_ = -1, last_step_ = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr first_error_;
  PeerProcesses peers_;
};

struct WatchdogOptions {
  double limit = 30;                                // seconds without progress of a rank
  const std::atomic<bool>* stop = nullptr;          // the user has had enough
  double patience = 0.3;                            // seconds from that until communicators are aborted
  std::function<void()> tick;                       // every few milliseconds
  std::function<void(const std::string&)> give_up;  // ranks that do not even end after an abort; no return
};

// Runs work(local) on a thread a local rank and watches them. Throws the first error, prefixed with its rank,
// when all threads have ended; names the ranks that did not come forward where `limit` was passed, and those
// whose processes have ended, within two seconds where they can be seen.
void run_watched(RunControl& control, int local_ranks, int first_rank, int world,
                 const std::function<void(int)>& work, const WatchdogOptions& options);

}  // namespace foretrain

#include "execute/run_control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds watch_interval{10};
constexpr double abort_limit = 10;      // seconds that ranks get to end after an abort
constexpr double peer_interval = 0.25;  // seconds between two looks at the other processes
// A rank that is done may end a moment before the others have noticed.
constexpr double peer_patience = 1;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::exception_ptr named(int rank, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return std::make_exception_ptr(Error(known.kind(), fmt::format("rank {}: {}", rank, known.what())));
  } catch (const std::exception& other) {
    return std::make_exception_ptr(Error(ErrorKind::failure, fmt::format("rank {}: {}", rank, other.what())));
  }
}

}  // namespace

bool RunControl::may_issue(std::int64_t step) {
  check();
  const std::scoped_lock lock(mutex_);
  if (stopping_ && last_step_ == std::numeric_limits<std::int64_t>::max()) last_step_ = highest_issued_;
  if (step > last_step_) return false;
  highest_issued_ = std::max(highest_issued_, step);
  return true;
}

void RunControl::set_stage(int local, const char* stage, bool timed) {
  at(local).stage = stage;
  at(local).timed = timed;
  progressed(local);
}

void RunControl::progressed(int local) {
  at(local).progress.fetch_add(1, std::memory_order_relaxed);
}

void RunControl::finished_step(int local) {
  at(local).steps.fetch_add(1, std::memory_order_relaxed);
  progressed(local);
}

void RunControl::set_communicator(int local, device::Communicator* communicator) {
  const std::scoped_lock lock(mutex_);
  at(local).communicator = communicator;
}

void RunControl::set_peers(PeerProcesses peers) {
  const std::scoped_lock lock(mutex_);
  peers_ = std::move(peers);
}

PeerProcesses RunControl::peers() const {
  const std::scoped_lock lock(mutex_);
  return peers_;
}

void RunControl::fail(int local, int rank, std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const Stopped&) {
    return;
  } catch (...) {
  }
  const std::scoped_lock lock(mutex_);
  // After an abort, what the others report follows from it.
  if (!first_error_ && !aborted_) first_error_ = named(rank, error);
  at(local).stage = "failed";
}

void RunControl::ended(int local) {
  at(local).ended = true;
}

void RunControl::stop_soon() {
  stopping_ = true;
}

void RunControl::abort() {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  for (Rank& rank : ranks_) {
    if (rank.communicator != nullptr) rank.communicator->abort();
    rank.communicator = nullptr;
  }
}

bool RunControl::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended.load(); });
}

bool RunControl::failed() const {
  const std::scoped_lock lock(mutex_);
  return first_error_ != nullptr;
}

std::int64_t RunControl::progress(int local) const {
  return at(local).progress.load(std::memory_order_relaxed);
}

std::int64_t RunControl::steps(int local) const {
  return at(local).steps.load(std::memory_order_relaxed);
}

std::string RunControl::stage(int local) const {
  return at(local).stage.load();
}

bool RunControl::is_timed(int local) const {
  return at(local).timed;
}

bool RunControl::has_ended(int local) const {
  return at(local).ended;
}

void RunControl::check_communicators() {
  const std::scoped_lock lock(mutex_);
  for (Rank& rank : ranks_) {
    if (rank.communicator != nullptr && !rank.ended) rank.communicator->check();
  }
}

void RunControl::rethrow() const {
  const std::scoped_lock lock(mutex_);
  if (first_error_) std::rethrow_exception(first_error_);
}

namespace {

// Ranks whose progress has not changed for the longest.
class ProgressWatch {
 public:
  ProgressWatch(const RunControl& control, int local_ranks)
      : control_(control),
        progress_(static_cast<std::size_t>(local_ranks), -1),
        moved_(static_cast<std::size_t>(local_ranks), Clock::now()) {}

  // Local ranks without progress for `limit` seconds, only where no rank at all has moved.
  std::vector<int> stalled(double limit) {
    std::vector<int> result;
    bool anybody = false;
    for (std::size_t i = 0; i < progress_.size(); ++i) {
      const int local = static_cast<int>(i);
      const std::int64_t now = control_.progress(local);
      if (now != progress_[i] || !control_.is_timed(local)) {
        progress_[i] = now;
        moved_[i] = Clock::now();
      }
      if (control_.has_ended(local)) continue;
      if (since(moved_[i]) > limit) {
        result.push_back(local);
      } else {
        anybody = true;
      }
    }
    if (anybody) result.clear();
    // Those that did least are what the others wait for.
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int local : result) least = std::min(least, progress_[static_cast<std::size_t>(local)]);
    std::erase_if(result, [&](int local) { return progress_[static_cast<std::size_t>(local)] > least; });
    return result;
  }

 private:
  const RunControl& control_;
  std::vector<std::int64_t> progress_;
  std::vector<Clock::time_point> moved_;
};

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
  return text;
}

std::string stall_text(const RunControl& control, std::vector<int> stalled, int local_ranks, int first_rank,
                       int world, double limit) {
  const std::string stage = control.stage(stalled.front());
  for (int& rank : stalled) rank += first_rank;
  std::string text =
      fmt::format("{} did not come forward within {:g} s while {}", ranks_text(stalled), limit, stage);
  if (local_ranks == world) return text;
  std::vector<int> elsewhere;
  std::string known;
  const PeerProcesses peers = control.peers();
  for (int rank = 0; rank < world; ++rank) {
    if (rank >= first_rank && rank < first_rank + local_ranks) continue;
    elsewhere.push_back(rank);
    const std::string state = peers.state_of(rank);
    if (!state.empty()) known += fmt::format("{}rank {}: {}", known.empty() ? "" : ", ", rank, state);
  }
  return text + fmt::format("; it may wait for {} in other processes, of which one may have died{}",
                            ranks_text(elsewhere), known.empty() ? "" : " (" + known + ")");
}

// Tells of processes that have ended while this one still trains.
class PeerWatch {
 public:
  explicit PeerWatch(const RunControl& control) : control_(control) {}

  // The error, once they have been gone for a while; empty as long as there is none.
  std::string ended() {
    if (since(looked_) < peer_interval) return "";
    looked_ = Clock::now();
    const PeerProcesses peers = control_.peers();
    const std::vector<int> gone = peers.gone();
    if (gone.empty()) {
      seen_ = false;
      return "";
    }
    if (!seen_) first_seen_ = looked_;
    seen_ = true;
    if (since(first_seen_) < peer_patience) return "";
    return fmt::format("{} has gone while {}: {}", ranks_text(gone), control_.stage(0),
                       peers.state_of(gone.front()));
  }

 private:
  const RunControl& control_;
  Clock::time_point looked_ = Clock::now();
  Clock::time_point first_seen_ = looked_;
  bool seen_ = false;
};

// Of an abort: what a rank threw, or what the watchdog saw. Empty where the user asked for it.
std::string cause_of(const RunControl& control, std::exception_ptr found) {
  try {
    control.rethrow();
    if (found) std::rethrow_exception(found);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

void run_watched(RunControl& control, int local_ranks, int first_rank, int world,
                 const std::function<void(int)>& work, const WatchdogOptions& options) {
  std::vector<std::thread> threads;
  for (int local = 0; local < local_ranks; ++local) {
    threads.emplace_back([&, local] {
      try {
        work(local);
      } catch (...) {
        control.fail(local, first_rank + local, std::current_exception());
      }
      control.ended(local);
    });
  }
  ProgressWatch watch(control, local_ranks);
  PeerWatch peers(control);
  std::exception_ptr found;  // by the watchdog itself
  Clock::time_point asked_to_stop, aborted_at;
  bool is_asked = false, is_aborted = false;
  const auto abort = [&] {
    if (is_aborted) return;
    control.abort();
    is_aborted = true;
    aborted_at = Clock::now();
  };
  while (!control.all_ended()) {
    std::this_thread::sleep_for(watch_interval);
    if (options.tick) options.tick();
    if (options.stop != nullptr && options.stop->load() && !is_asked) {
      is_asked = true;
      asked_to_stop = Clock::now();
      control.stop_soon();
    }
    if (is_asked && since(asked_to_stop) > options.patience) abort();
    if (control.failed()) abort();
    if (is_aborted) {
      if (since(aborted_at) > abort_limit && options.give_up) {
        const std::string cause = cause_of(control, found);
        options.give_up((cause.empty() ? "" : cause + "; ") +
                        "ranks do not end after their communicators were aborted");
      }
      continue;
    }
    if (const std::string ended = peers.ended(); !ended.empty()) {
      found = std::make_exception_ptr(Error(ErrorKind::failure, ended));
      abort();
      continue;
    }
    try {
      control.check_communicators();
    } catch (...) {
      found = std::current_exception();
      abort();
      continue;
    }
    if (const std::vector<int> stalled = watch.stalled(options.limit); !stalled.empty()) {
      found = std::make_exception_ptr(Error(
          ErrorKind::failure, stall_text(control, stalled, local_ranks, first_rank, world, options.limit)));
      abort();
    }
  }
  for (std::thread& thread : threads) thread.join();
  control.rethrow();
  if (found) std::rethrow_exception(found);
}

}  // namespace foretrain

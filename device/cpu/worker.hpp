// A worker: a team of threads for computing, a thread for exchanging, one for copies; events across them.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/backend.hpp"
#include "device/cpu/memory.hpp"
#include "device/cpu/stream.hpp"

namespace foretrain::device::cpu {

// `cores`: of the team, a thread each. `all`: those on which the other threads may run.
std::unique_ptr<Worker> make_worker(const std::vector<int>& cores, const std::vector<int>& all);

// Of one thread: what others make of it while it waits, they do.
class CpuWorker : public Worker {
 public:
  CpuWorker(const std::vector<int>& cores, const std::vector<int>& all);
  ~CpuWorker() override;

  std::unique_ptr<Program> build(const Model& model, const BuildOptions& options) override;
  std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks) override;

  Event make_event() override;
  void record(Event event, StreamKind stream) override;
  void wait(StreamKind stream, Event event) override;
  // Sleeps a little where the event has not come: a host thread that polls would take a core from the team.
  bool reached(Event event) override;
  double seconds_between(Event from, Event to) override;
  void synchronize() override;
  void synchronize(StreamKind stream) override;
  void close_gate(StreamKind stream, double most_seconds) override;
  void open_gate() override;
  void empty_kernel(StreamKind stream) override;
  void spin_kernel(StreamKind stream, double seconds) override;
  void copy(const std::string& direction, std::int64_t bytes, bool pinned, int peer) override;
  Buffer allocate(std::int64_t bytes) override;
  void release(Buffer buffer) override;
  std::int64_t peak_bytes() const override { return count_->peak; }
  void reset_peak() override { count_->peak = count_->held.load(); }

  Stream& stream(StreamKind kind);
  // Destroys it once the collectives that were enqueued have ended: where a rank fails in the middle of one,
  // what that reads must not be gone.
  void keep_for_collectives(std::shared_ptr<void> memory);
  const std::shared_ptr<MemoryCount>& count() const { return count_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Moment {
    std::uint32_t asked = 0;  // records enqueued; of the owning thread alone
    std::atomic<std::uint32_t> come{0};
    Clock::time_point at;
  };
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool is_open = false;
  };
  Moment& moment(Event event);

  std::shared_ptr<MemoryCount> count_ = std::make_shared<MemoryCount>();
  std::deque<Moment> moments_;
  std::vector<std::shared_ptr<Gate>> gates_;
  std::map<void*, Block> buffers_;
  Block from_, to_;
  std::mutex waiting_;
  std::condition_variable came_;
  bool ends_ = false;                      // nobody waits any more
  Stream compute_, communication_, copy_;  // last: they end before what their tasks use
};

}  // namespace foretrain::device::cpu

#include "device/reference/backend.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "device/reference/communicator.hpp"
#include "device/reference/program.hpp"
#include "sim/base/error.hpp"
#include "sim/base/host_identity.hpp"

namespace foretrain::device::reference {
namespace {

using Clock = std::chrono::steady_clock;

class ReferenceRecording : public Recording {
 public:
  explicit ReferenceRecording(std::function<void()> work) : work_(std::move(work)) {}
  void issue() override { work_(); }

 private:
  std::function<void()> work_;
};

class ReferenceWorker : public Worker {
 public:
  std::unique_ptr<Program> build(const Model& model, const BuildOptions& options) override {
    auto program = make_program(model, options);
    const BuildReport& report = program->report();
    peak_ = std::max(peak_, held_ + report.parameter_bytes + report.gradient_bytes + report.optimizer_bytes +
                                report.activation_bytes);
    return program;
  }
  std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks) override {
    return reference::join(id, rank, ranks);
  }

  std::unique_ptr<Recording> record_work(std::function<void()> work) override {
    return std::make_unique<ReferenceRecording>(std::move(work));
  }

  Event make_event() override {
    events_.emplace_back();
    return {static_cast<int>(events_.size()) - 1};
  }
  void record(Event event, StreamKind) override { moment(event) = {Clock::now(), true}; }
  void wait(StreamKind, Event event) override { moment(event); }
  bool reached(Event event) override { return moment(event).is_recorded; }
  double seconds_between(Event from, Event to) override {
    const Moment &first = moment(from), &second = moment(to);
    if (!first.is_recorded || !second.is_recorded)
      throw Error(ErrorKind::failure, "seconds_between: an event was not recorded");
    return std::chrono::duration<double>(second.at - first.at).count();
  }
  void synchronize() override {}
  void synchronize(StreamKind) override {}

  void close_gate(StreamKind, double) override {}
  void open_gate() override {}
  void empty_kernel(StreamKind) override {}
  void spin_kernel(StreamKind, double seconds) override {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) std::this_thread::yield();
  }
  void copy(const std::string& direction, std::int64_t bytes, bool, int) override {
    static const char* const known[] = {"host_to_device", "device_to_host", "device_to_device", "peer"};
    if (std::find(std::begin(known), std::end(known), direction) == std::end(known))
      throw Error(ErrorKind::failure, "copy: there is no direction '" + direction + "'");
    from_.resize(static_cast<std::size_t>(bytes));
    to_.resize(static_cast<std::size_t>(bytes));
    if (bytes > 0) std::memcpy(to_.data(), from_.data(), from_.size());
  }

  Buffer allocate(std::int64_t bytes) override {
    auto memory = std::make_unique<std::byte[]>(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
    const Buffer buffer{memory.get(), bytes};
    buffers_[buffer.data] = std::move(memory);
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    return buffer;
  }
  void release(Buffer buffer) override {
    if (buffers_.erase(buffer.data) == 0)
      throw Error(ErrorKind::failure, "release: this buffer was not allocated");
    held_ -= buffer.bytes;
  }
  std::int64_t peak_bytes() const override { return peak_; }
  void reset_peak() override { peak_ = held_; }

 private:
  struct Moment {
    Clock::time_point at;
    bool is_recorded = false;
  };
  Moment& moment(Event event) {
    if (event.id < 0 || event.id >= static_cast<int>(events_.size()))
      throw Error(ErrorKind::failure, "an event belongs to the worker that made it");
    return events_[static_cast<std::size_t>(event.id)];
  }

  std::vector<Moment> events_;
  std::map<void*, std::unique_ptr<std::byte[]>> buffers_;
  std::int64_t held_ = 0, peak_ = 0;
  std::vector<std::byte> from_, to_;
};

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  // A worker is a thread: as many as anybody tests with.
  int device_count() override { return 64; }
  Machine machine() override {
    Machine machine;
    machine.identity = host_identity();
    machine.gpu = "reference (double precision, host)";
    machine.gpus = device_count();
    machine.cores = static_cast<int>(std::thread::hardware_concurrency());
    utsname system{};
    if (uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release;
    return machine;
  }
  Clocks clocks(int) override { return {}; }
  std::unique_ptr<Worker> make_worker(int device) override {
    if (device < 0 || device >= device_count())
      throw Error(ErrorKind::unavailable, "there is no device " + std::to_string(device));
    return std::make_unique<ReferenceWorker>();
  }
  CommunicatorId make_communicator_id() override { return reference::make_communicator_id(); }
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace foretrain::device::reference

#include "device/cpu/worker.hpp"

#include <algorithm>
#include <cstring>

#include "device/cpu/communicator.hpp"
#include "device/cpu/cores.hpp"
#include "device/cpu/loops.hpp"
#include "device/cpu/program.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr auto patience = std::chrono::microseconds(200);  // of one look at an event

}  // namespace

CpuWorker::CpuWorker(const std::vector<int>& cores, const std::vector<int>& all)
    : compute_([cores] { pin_team(cores); }),
      communication_([all] { let_float(all); }),
      copy_([all] { let_float(all); }) {}

CpuWorker::~CpuWorker() {
  open_gate();
  {
    const std::lock_guard lock(waiting_);
    ends_ = true;
  }
  came_.notify_all();
}

Stream& CpuWorker::stream(StreamKind kind) {
  switch (kind) {
    case StreamKind::compute:
      return compute_;
    case StreamKind::communication:
      return communication_;
    case StreamKind::copy:
      return copy_;
  }
  return compute_;
}

std::unique_ptr<Program> CpuWorker::build(const Model& model, const BuildOptions& options) {
  std::unique_ptr<Program> program;
  compute_.run([&] { program = make_program(*this, model, options); });
  return program;
}

std::unique_ptr<Communicator> CpuWorker::join(const CommunicatorId& id, int rank, int ranks) {
  return join_communicator(communication_, id, rank, ranks);
}

Event CpuWorker::make_event() {
  moments_.emplace_back();
  return {static_cast<int>(moments_.size()) - 1};
}

CpuWorker::Moment& CpuWorker::moment(Event event) {
  if (event.id < 0 || event.id >= static_cast<int>(moments_.size()))
    throw Error(ErrorKind::failure, "an event belongs to the worker that made it");
  return moments_[static_cast<std::size_t>(event.id)];
}

void CpuWorker::record(Event event, StreamKind kind) {
  Moment& which = moment(event);
  const std::uint32_t number = ++which.asked;
  stream(kind).enqueue(
      [this, &which, number] {
        which.at = Clock::now();
        {
          const std::lock_guard lock(waiting_);
          which.come.store(number, std::memory_order_release);
        }
        came_.notify_all();
      },
      true);
}

void CpuWorker::wait(StreamKind kind, Event event) {
  Moment& which = moment(event);
  const std::uint32_t number = which.asked;
  if (number == 0) return;
  stream(kind).enqueue([this, &which, number] {
    std::unique_lock lock(waiting_);
    came_.wait(lock, [&] { return ends_ || which.come.load(std::memory_order_acquire) >= number; });
  });
}

bool CpuWorker::reached(Event event) {
  Moment& which = moment(event);
  const auto is_there = [&] { return which.come.load(std::memory_order_acquire) >= which.asked; };
  if (!is_there()) {
    std::unique_lock lock(waiting_);
    came_.wait_for(lock, patience, is_there);
  }
  if (!is_there()) return false;
  compute_.check();
  communication_.check();
  copy_.check();
  return true;
}

double CpuWorker::seconds_between(Event from, Event to) {
  const Moment &first = moment(from), &second = moment(to);
  if (first.come.load(std::memory_order_acquire) == 0 || second.come.load(std::memory_order_acquire) == 0)
    throw Error(ErrorKind::failure, "seconds_between: an event was not recorded");
  return std::chrono::duration<double>(second.at - first.at).count();
}

void CpuWorker::synchronize() {
  for (Stream* each : {&compute_, &communication_, &copy_}) each->synchronize();
}

void CpuWorker::synchronize(StreamKind kind) {
  stream(kind).synchronize();
}

void CpuWorker::close_gate(StreamKind kind, double most_seconds) {
  const auto gate = std::make_shared<Gate>();
  gates_.push_back(gate);
  stream(kind).enqueue([gate, limit = std::chrono::duration<double>(most_seconds)] {
    std::unique_lock lock(gate->mutex);
    gate->opened.wait_for(lock, limit, [&] { return gate->is_open; });
  });
}

void CpuWorker::open_gate() {
  for (const auto& gate : gates_) {
    {
      const std::lock_guard lock(gate->mutex);
      gate->is_open = true;
    }
    gate->opened.notify_all();
  }
  gates_.clear();
}

// What every kernel costs besides its work: the team is called together and dismissed.
void CpuWorker::empty_kernel(StreamKind kind) {
  stream(kind).enqueue([] {
#pragma omp parallel
    std::atomic_signal_fence(std::memory_order_seq_cst);
  });
}

void CpuWorker::spin_kernel(StreamKind kind, double seconds) {
  stream(kind).enqueue([seconds] {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) std::atomic_signal_fence(std::memory_order_seq_cst);
  });
}

void CpuWorker::copy(const std::string& direction, std::int64_t bytes, bool, int) {
  static const char* const known[] = {"host_to_device", "device_to_host", "device_to_device", "peer"};
  if (std::find(std::begin(known), std::end(known), direction) == std::end(known))
    throw Error(ErrorKind::failure, "copy: there is no direction '" + direction + "'");
  copy_.enqueue([this, bytes] {
    if (from_.bytes() < bytes) from_ = Block(bytes, count_);
    if (to_.bytes() < bytes) to_ = Block(bytes, count_);
    if (bytes > 0) std::memcpy(to_.as<std::byte>(), from_.as<std::byte>(), static_cast<std::size_t>(bytes));
  });
}

Buffer CpuWorker::allocate(std::int64_t bytes) {
  Block block;
  compute_.run([&] { block = Block(bytes, count_); });
  const Buffer buffer{block.as<std::byte>(), bytes};
  buffers_[buffer.data] = std::move(block);
  return buffer;
}

void CpuWorker::release(Buffer buffer) {
  const auto found = buffers_.find(buffer.data);
  if (found == buffers_.end()) throw Error(ErrorKind::failure, "release: this buffer was not allocated");
  keep_for_collectives(std::make_shared<Block>(std::move(found->second)));
  buffers_.erase(found);
}

void CpuWorker::keep_for_collectives(std::shared_ptr<void> memory) {
  communication_.enqueue([memory = std::move(memory)] {}, true);
}

std::unique_ptr<Worker> make_worker(const std::vector<int>& cores, const std::vector<int>& all) {
  return std::make_unique<CpuWorker>(cores, all);
}

}  // namespace foretrain::device::cpu

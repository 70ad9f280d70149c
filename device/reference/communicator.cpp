#include "device/reference/communicator.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "device/reference/elements.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::reference {
namespace {

struct Call {
  CollectiveKind kind = CollectiveKind::all_reduce;
  ElementType type = ElementType::fp32;
  std::int64_t bytes = 0;
  int root = 0;
  bool operator==(const Call&) const = default;
};

// What the ranks of one communicator share.
struct Group {
  explicit Group(int count) : ranks(count), calls(at(count)), buffers(at(count)), joined(at(count)) {}
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  // Returns when all ranks are here. Throws where one has left or aborted.
  void meet() {
    std::unique_lock lock(mutex);
    check(lock);
    if (!departure.empty()) throw Error(ErrorKind::failure, departure);
    const std::uint64_t mine = round;
    if (++arrived == ranks) {
      arrived = 0;
      ++round;
      changed.notify_all();
      return;
    }
    changed.wait(lock, [&] { return round != mine || !problem.empty() || !departure.empty(); });
    if (round != mine) return;
    check(lock);
    throw Error(ErrorKind::failure, departure);
  }

  void check(const std::unique_lock<std::mutex>&) const {
    if (!problem.empty()) throw Error(ErrorKind::failure, problem);
  }

  void fail(const std::string& what) {
    const std::lock_guard lock(mutex);
    if (problem.empty()) problem = what;
    changed.notify_all();
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex);
    departure = "rank " + std::to_string(rank) + " has left the communicator";
    changed.notify_all();
  }

  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  std::uint64_t round = 0;
  std::string problem;      // of a call that went wrong, or an abort
  std::string departure;    // no error before somebody waits for the rank that left
  std::vector<Call> calls;  // of each rank, as its buffer: written before a meeting, read after it
  std::vector<void*> buffers;
  std::vector<std::byte> shared;  // the result that ranks put together
  std::vector<bool> joined;
};

struct Groups {
  std::mutex mutex;
  std::uint64_t next = 1;
  std::map<std::uint64_t, std::weak_ptr<Group>> open;
};

Groups& groups() {
  static Groups all;
  return all;
}

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  // A rank that leaves early must not let the others wait for ever.
  ~ThreadCommunicator() override { group_->leave(rank_); }

  int rank() const override { return rank_; }
  int ranks() const override { return group_->ranks; }

  void enqueue(CollectiveKind kind, Buffer buffer, std::int64_t bytes, ElementType type, int root) override {
    const std::int64_t size = bytes_of(type);
    const bool split = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather ||
                       kind == CollectiveKind::all_to_all;
    const std::int64_t grain = split ? size * ranks() : size;
    std::string wrong;
    if (bytes < 0 || bytes > buffer.bytes) wrong = "it is larger than its buffer";
    if (bytes % grain != 0) wrong = "its size is no multiple of " + std::to_string(grain) + " bytes";
    if (root < 0 || root >= ranks()) wrong = "there is no rank " + std::to_string(root);
    if (!wrong.empty()) {
      const std::string what =
          std::string(name_of(kind)) + " of rank " + std::to_string(rank_) + ": " + wrong;
      group_->fail(what);
      throw Error(ErrorKind::failure, what);
    }
    group_->calls[Group::at(rank_)] = {kind, type, bytes, root};
    group_->buffers[Group::at(rank_)] = buffer.data;
    group_->meet();
    compare_calls();
    if (rank_ == 0) group_->shared.resize(static_cast<std::size_t>(bytes));
    group_->meet();
    run(group_->calls[Group::at(rank_)], static_cast<std::byte*>(buffer.data));
  }

  void check() override {
    std::unique_lock lock(group_->mutex);
    group_->check(lock);
  }
  void abort() override { group_->fail("rank " + std::to_string(rank_) + " aborted the communicator"); }
  std::string choice() const override { return ""; }

 private:
  void compare_calls() const {
    const Call& first = group_->calls[0];
    for (int other = 1; other < ranks(); ++other) {
      const Call& call = group_->calls[Group::at(other)];
      if (call == first) continue;
      const std::string what = "ranks disagree on a collective: rank 0 calls " + text_of(first) + ", rank " +
                               std::to_string(other) + " " + text_of(call);
      group_->fail(what);
      throw Error(ErrorKind::failure, what);
    }
  }

  static std::string text_of(const Call& call) {
    return std::string(name_of(call.kind)) + " of " + std::to_string(call.bytes) + " bytes";
  }

  const std::byte* buffer_of(int rank) const {
    return static_cast<const std::byte*>(group_->buffers[Group::at(rank)]);
  }

  // Copies go from the others' buffers to the shared one, and after a meeting from there to the own.
  void run(const Call& call, std::byte* mine) {
    const int n = ranks();
    const std::int64_t share = call.bytes / n;
    std::byte* shared = group_->shared.data();
    std::vector<std::byte> own;  // what this rank alone receives
    const auto copy = [](std::byte* to, const std::byte* from, std::int64_t size) {
      if (size > 0) std::memcpy(to, from, static_cast<std::size_t>(size));
    };
    switch (call.kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce:
      case CollectiveKind::reduce_scatter: {
        const std::int64_t elements = call.bytes / bytes_of(call.type);
        sum(call.type, elements * rank_ / n, elements * (rank_ + 1) / n);
        group_->meet();
        if (call.kind == CollectiveKind::reduce_scatter) {
          copy(mine + rank_ * share, shared + rank_ * share, share);
        } else if (call.kind == CollectiveKind::all_reduce || rank_ == call.root) {
          copy(mine, shared, call.bytes);
        }
        break;
      }
      case CollectiveKind::all_gather:
        copy(shared + rank_ * share, mine + rank_ * share, share);
        group_->meet();
        copy(mine, shared, call.bytes);
        break;
      case CollectiveKind::broadcast:
        if (rank_ == call.root) copy(shared, mine, call.bytes);
        group_->meet();
        copy(mine, shared, call.bytes);
        break;
      case CollectiveKind::all_to_all:
        own.resize(static_cast<std::size_t>(call.bytes));
        for (int from = 0; from < n; ++from)
          copy(own.data() + from * share, buffer_of(from) + rank_ * share, share);
        group_->meet();
        copy(mine, own.data(), call.bytes);
        break;
      case CollectiveKind::send_recv:
        own.resize(static_cast<std::size_t>(call.bytes));
        copy(own.data(), buffer_of((rank_ + n - 1) % n), call.bytes);
        group_->meet();
        copy(mine, own.data(), call.bytes);
        break;
    }
    group_->meet();  // nobody may change buffers, or begin the next collective, before all have read
  }

  void sum(ElementType type, std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      double total = 0;
      for (int rank = 0; rank < ranks(); ++rank) total += load(buffer_of(rank), i, type);
      store(group_->shared.data(), i, type, total);
    }
  }

  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace

CommunicatorId make_communicator_id() {
  Groups& all = groups();
  const std::lock_guard lock(all.mutex);
  const std::uint64_t number = all.next++;
  CommunicatorId id;
  id.bytes.resize(sizeof number);
  std::memcpy(id.bytes.data(), &number, sizeof number);
  return id;
}

std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks) {
  std::uint64_t number = 0;
  if (id.bytes.size() != sizeof number)
    throw Error(ErrorKind::failure, "this is no communicator id of this backend");
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw Error(ErrorKind::failure,
                "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " does not exist");
  std::memcpy(&number, id.bytes.data(), sizeof number);
  std::shared_ptr<Group> group;
  {
    Groups& all = groups();
    const std::lock_guard lock(all.mutex);
    std::weak_ptr<Group>& place = all.open[number];
    group = place.lock();
    if (!group) place = group = std::make_shared<Group>(ranks);
  }
  if (group->ranks != ranks) {
    group->fail("ranks disagree on their number: " + std::to_string(group->ranks) + " and " +
                std::to_string(ranks));
  } else {
    bool twice = false;
    {
      const std::lock_guard lock(group->mutex);
      twice = group->joined[Group::at(rank)];
      group->joined[Group::at(rank)] = true;
    }
    if (twice) group->fail("two workers join as rank " + std::to_string(rank));
  }
  group->meet();
  return std::make_unique<ThreadCommunicator>(std::move(group), rank);
}

}  // namespace foretrain::device::reference

#include "device/reference/communicator.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <system_error>
#include <thread>

#include "device/reference/elements.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device::reference {
namespace {

constexpr int most_ranks = 64;
constexpr std::int64_t chunk = 1 << 18;  // bytes of a rank that are in the shared memory at a time
constexpr std::size_t most_text = 256;
constexpr std::chrono::seconds join_limit{120};

struct Call {
  CollectiveKind kind = CollectiveKind::all_reduce;
  ElementType type = ElementType::fp32;
  std::int64_t bytes = 0;
  int root = 0;
  bool operator==(const Call&) const = default;
};

std::string text_of(const Call& call) {
  return std::string(name_of(call.kind)) + " of " + std::to_string(call.bytes) + " bytes";
}

// At the beginning of the shared memory, which is zeros at first; behind it lies a chunk of each rank.
struct Shared {
  std::atomic<std::int32_t> ranks;  // of who came first
  std::atomic<std::uint64_t> joined;
  std::atomic<std::int32_t> arrived;
  std::atomic<std::uint64_t> round;
  std::atomic<std::int32_t> departed;  // a rank, counted from 1
  std::atomic<std::int32_t> failed;    // 1: `problem` is being written, 2: it stands
  char problem[most_text];
  Call calls[most_ranks];  // written before a meeting, read after it
};
static_assert(std::atomic<std::int32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);
constexpr std::int64_t head = (sizeof(Shared) + 4095) / 4096 * 4096;
constexpr std::int64_t whole_size = head + most_ranks * chunk;

std::filesystem::path file_of(const CommunicatorId& id) {
  std::filesystem::path folder = "/dev/shm";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) folder = std::filesystem::temp_directory_path();
  std::string name(id.bytes.size(), '\0');
  std::memcpy(name.data(), id.bytes.data(), name.size());
  return folder / ("foretrain-" + name);
}

[[noreturn]] void refuse(const std::filesystem::path& file) {
  throw Error(ErrorKind::failure, file.string() + ": " + std::generic_category().message(errno));
}

// A file in memory, mapped by every rank; ranks are threads or processes of one machine.
class Memory {
 public:
  explicit Memory(const std::filesystem::path& file) {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) refuse(file);
    void* mapped = MAP_FAILED;
    if (::ftruncate(descriptor, whole_size) == 0)
      mapped = ::mmap(nullptr, whole_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    const int code = errno;
    ::close(descriptor);
    errno = code;
    if (mapped == MAP_FAILED) refuse(file);
    data_ = static_cast<std::byte*>(mapped);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(data_, whole_size); }

  Shared& shared() const { return *reinterpret_cast<Shared*>(data_); }
  std::byte* chunk_of(int rank) const { return data_ + head + rank * chunk; }

 private:
  std::byte* data_ = nullptr;
};

class SharedCommunicator : public Communicator {
 public:
  // Returns when all ranks have joined.
  SharedCommunicator(const std::filesystem::path& file, int rank, int ranks)
      : memory_(file), shared_(memory_.shared()), rank_(rank), ranks_(ranks) {
    std::int32_t first = 0;
    if (!shared_.ranks.compare_exchange_strong(first, ranks) && first != ranks)
      fail(fmt::format("ranks disagree on their number: {} and {}", first, ranks));
    const std::uint64_t mine = std::uint64_t{1} << rank;
    if (shared_.joined.fetch_or(mine) & mine)
      fail(fmt::format("two workers join as rank {}; or {} is left by an earlier run", rank, file.string()));
    try {
      meet(join_limit);
    } catch (...) {
      shared_.departed = rank_ + 1;
      throw;
    }
  }
  // A rank that leaves early must not let the others wait for ever.
  ~SharedCommunicator() override { shared_.departed = rank_ + 1; }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  void enqueue(CollectiveKind kind, Buffer buffer, std::int64_t bytes, ElementType type, int root) override {
    const std::int64_t size = bytes_of(type);
    const bool split = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather ||
                       kind == CollectiveKind::all_to_all;
    const std::int64_t grain = split ? size * ranks_ : size;
    std::string wrong;
    if (bytes < 0 || bytes > buffer.bytes) wrong = "it is larger than its buffer";
    if (bytes % grain != 0) wrong = fmt::format("its size is no multiple of {} bytes", grain);
    if (root < 0 || root >= ranks_) wrong = fmt::format("there is no rank {}", root);
    if (!wrong.empty()) {
      const std::string what = fmt::format("{} of rank {}: {}", name_of(kind), rank_, wrong);
      fail(what);
      throw Error(ErrorKind::failure, what);
    }
    const Call call{kind, type, bytes, root};
    shared_.calls[rank_] = call;
    meet();
    compare_calls();
    run(call, static_cast<std::byte*>(buffer.data));
  }

  void check() override {
    if (shared_.failed == 2) throw Error(ErrorKind::failure, shared_.problem);
  }
  void abort() override { fail(fmt::format("rank {} aborted the communicator", rank_)); }
  std::string choice() const override { return ""; }

 private:
  // Returns when all ranks are here. Throws where one has left or aborted, or the limit is over.
  void meet(std::chrono::seconds limit = std::chrono::hours(24)) {
    check();
    check_departure();
    const std::uint64_t mine = shared_.round;
    if (shared_.arrived.fetch_add(1) + 1 == ranks_) {
      shared_.arrived = 0;
      ++shared_.round;
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (int turn = 0;; ++turn) {
      if (shared_.round != mine) return;
      check();
      if (shared_.departed != 0 && shared_.round == mine) check_departure();
      constexpr int patience = 200;
      if (turn < patience) {
        std::this_thread::yield();
        continue;
      }
      if (std::chrono::steady_clock::now() > deadline)
        throw Error(ErrorKind::failure,
                    fmt::format("the other ranks did not come within {} seconds", limit.count()));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  void check_departure() const {
    if (const std::int32_t rank = shared_.departed)
      throw Error(ErrorKind::failure, fmt::format("rank {} has left the communicator", rank - 1));
  }

  // For all ranks; the first problem stands.
  void fail(const std::string& what) {
    std::int32_t none = 0;
    if (!shared_.failed.compare_exchange_strong(none, 1)) return;
    what.copy(shared_.problem, most_text - 1);
    shared_.failed = 2;
  }

  void compare_calls() {
    const Call& first = shared_.calls[0];
    for (int other = 1; other < ranks_; ++other) {
      const Call& call = shared_.calls[other];
      if (call == first) continue;
      const std::string what = fmt::format("ranks disagree on a collective: rank 0 calls {}, rank {} {}",
                                           text_of(first), other, text_of(call));
      fail(what);
      throw Error(ErrorKind::failure, what);
    }
  }

  // Chunk after chunk every rank shows its own, and takes from the others' what belongs to it.
  void run(const Call& call, std::byte* mine) {
    std::vector<std::byte> gathered;  // all_to_all alone puts elsewhere than it takes from
    if (call.kind == CollectiveKind::all_to_all) gathered.resize(static_cast<std::size_t>(call.bytes));
    std::int64_t from = 0;
    do {
      const std::int64_t size = std::min(chunk, call.bytes - from);
      std::copy_n(mine + from, size, memory_.chunk_of(rank_));
      meet();
      take(call, from, size, mine, gathered.data());
      meet();  // nobody may show the next before all have taken this one
      from += size;
    } while (from < call.bytes);
    std::copy(gathered.begin(), gathered.end(), mine);
  }

  // Bytes [from, from + size) of all buffers are shown.
  void take(const Call& call, std::int64_t from, std::int64_t size, std::byte* mine, std::byte* gathered) {
    const std::int64_t share = call.bytes / ranks_;
    // Of [first, last), what is shown: where it begins and ends.
    const auto shown = [&](std::int64_t first, std::int64_t last) {
      return std::pair(std::max(first, from), std::min(last, from + size));
    };
    const auto copy = [&](int rank, std::pair<std::int64_t, std::int64_t> part, std::byte* to) {
      if (part.first < part.second)
        std::copy_n(memory_.chunk_of(rank) + part.first - from, part.second - part.first, to);
    };
    switch (call.kind) {
      case CollectiveKind::all_reduce:
        return sum(call.type, shown(0, call.bytes), from, mine);
      case CollectiveKind::reduce:
        if (rank_ == call.root) sum(call.type, shown(0, call.bytes), from, mine);
        return;
      case CollectiveKind::reduce_scatter:
        return sum(call.type, shown(rank_ * share, (rank_ + 1) * share), from, mine);
      case CollectiveKind::all_gather:
        for (int rank = 0; rank < ranks_; ++rank) {
          const auto part = shown(rank * share, (rank + 1) * share);
          copy(rank, part, mine + part.first);
        }
        return;
      case CollectiveKind::broadcast:
        return copy(call.root, shown(0, call.bytes), mine + from);
      case CollectiveKind::all_to_all:
        for (int rank = 0; rank < ranks_; ++rank) {
          const auto part = shown(rank_ * share, (rank_ + 1) * share);
          copy(rank, part, gathered + (rank - rank_) * share + part.first);
        }
        return;
      case CollectiveKind::send_recv:
        return copy((rank_ + ranks_ - 1) % ranks_, shown(0, call.bytes), mine + from);
    }
  }

  // In rank order: all ranks get the same bits.
  void sum(ElementType type, std::pair<std::int64_t, std::int64_t> part, std::int64_t from, std::byte* mine) {
    const std::int64_t width = bytes_of(type);
    for (std::int64_t at = part.first; at < part.second; at += width) {
      double total = 0;
      for (int rank = 0; rank < ranks_; ++rank)
        total += load(memory_.chunk_of(rank), (at - from) / width, type);
      store(mine, at / width, type, total);
    }
  }

  Memory memory_;
  Shared& shared_;
  int rank_, ranks_;
};

}  // namespace

CommunicatorId make_communicator_id() {
  static std::atomic<int> made{0};
  std::string name;
  if (const char* address = std::getenv("NCCL_COMM_ID")) {
    name = fmt::format("{:016x}-{}", std::hash<std::string>()(address), made++);
  } else {
    std::random_device random;
    name = fmt::format("{:08x}{:08x}-{}-{}", random(), random(), ::getpid(), made++);
  }
  CommunicatorId id;
  id.bytes.resize(name.size());
  std::memcpy(id.bytes.data(), name.data(), name.size());
  return id;
}

std::unique_ptr<Communicator> join(const CommunicatorId& id, int rank, int ranks) {
  if (id.bytes.empty()) throw Error(ErrorKind::failure, "this is no communicator id of this backend");
  if (ranks < 1 || ranks > most_ranks || rank < 0 || rank >= ranks)
    throw Error(ErrorKind::failure, fmt::format("rank {} of {} does not exist", rank, ranks));
  const std::filesystem::path file = file_of(id);
  std::error_code ignored;
  try {
    auto communicator = std::make_unique<SharedCommunicator>(file, rank, ranks);
    std::filesystem::remove(file, ignored);  // all have mapped it
    return communicator;
  } catch (...) {
    std::filesystem::remove(file, ignored);
    throw;
  }
}

}  // namespace foretrain::device::reference

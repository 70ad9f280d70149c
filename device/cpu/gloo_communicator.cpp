#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "device/cpu/communicator.hpp"
#include "device/cpu/gloo_sockets.hpp"
#include "device/cpu/gloo_store.hpp"

namespace foretrain::device::cpu {
namespace {

constexpr double meeting_seconds = 120;
// Of one collective. A run's own watchdog aborts it much earlier.
constexpr auto collective_limit = std::chrono::minutes(10);

// "file PATH": a fresh folder for Gloo's file store. "address HOST:PORT N": a store over TCP that rank 0
// keeps, for the N-th communicator.
struct Meeting {
  std::string kind, where, number;
};

Meeting meeting_of(const CommunicatorId& id) {
  const std::string text(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
  const std::size_t first = text.find(' '), last = text.rfind(' ');
  if (text.starts_with("file ")) return {"file", text.substr(first + 1), ""};
  if (text.starts_with("address ") && last > first)
    return {"address", text.substr(first + 1, last - first - 1), text.substr(last + 1)};
  throw Error(ErrorKind::failure, "'" + text + "' is no name of a communicator of the cpu backend");
}

CommunicatorId id_of(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {{bytes, bytes + text.size()}};
}

const char* set_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

// Where a run's processes meet through a file, the folder lies beside it.
std::string fresh_folder() {
  const char* shared = set_variable("FORETRAIN_RENDEZVOUS");
  std::string pattern = shared != nullptr
                            ? std::string(shared) + ".gloo-XXXXXX"
                            : (std::filesystem::temp_directory_path() / "foretrain-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw Error(ErrorKind::failure,
                "cannot make the folder " + pattern + " for ranks to meet: " + std::strerror(errno));
  return pattern;
}

// Of this process, as long as it lives: a port can serve many communicators.
void keep_serving(const std::string& address) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<AddressServer>> servers;
  const std::lock_guard lock(mutex);
  auto& server = servers[address];
  if (!server) server = serve_addresses(std::atoi(address.substr(address.rfind(':') + 1).c_str()));
}

// The interface that the environment names (as for NCCL); else the one on the way to rank 0, or to anywhere;
// else this host alone.
gloo::transport::tcp::attr interface_for(const Meeting& meeting) {
  gloo::transport::tcp::attr attributes;
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    if (const char* value = set_variable(name); value != nullptr && *value != '^' && *value != '=') {
      attributes.iface = std::string(value).substr(0, std::string(value).find(','));
      return attributes;
    }
  }
  if (meeting.kind == "address") attributes.hostname = own_address_towards(meeting.where);
  if (attributes.hostname.empty()) attributes.hostname = "127.0.0.1";
  return attributes;
}

// Of all-reduces; a ring otherwise.
bool wants_bcube() {
  const char* wanted = set_variable("GLOO_ALGO");
  return wanted != nullptr && std::string_view(wanted) == "bcube";
}

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(Stream& stream, const Meeting& meeting, int rank, int ranks)
      : stream_(stream), rank_(rank), ranks_(ranks) {
    std::unique_ptr<gloo::rendezvous::Store> store;
    if (meeting.kind == "file") {
      store = std::make_unique<gloo::rendezvous::FileStore>(meeting.where);
    } else {
      if (rank == 0) keep_serving(meeting.where);
      store = store_at(meeting.where, meeting.number + "/", meeting_seconds);
    }
    const Connections before = connections();
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->setTimeout(std::chrono::seconds(static_cast<int>(meeting_seconds)));
    auto device = gloo::transport::tcp::CreateDevice(interface_for(meeting));
    context->connectFullMesh(*store, device);
    context_ = context;
    gloo::BarrierOptions all_here(context_);
    gloo::barrier(all_here);
    sockets_ = made_since(before, connections());
    context_->setTimeout(collective_limit);
    if (rank == 0 && meeting.kind == "file") {
      std::error_code ignored;
      std::filesystem::remove_all(meeting.where, ignored);
    }
  }

  ~GlooCommunicator() override {
    try {
      stream_.synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): who cares has seen it
    }
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  void enqueue(CollectiveKind kind, Buffer buffer, std::int64_t bytes, ElementType type, int root) override {
    if (type != ElementType::fp32 && type != ElementType::fp64)
      throw Error(ErrorKind::unavailable, "Gloo sums fp32 and fp64 alone");
    stream_.enqueue([this, kind, buffer, bytes, type, root] {
      try {
        if (is_aborted_) throw Error(ErrorKind::failure, "the communicator was aborted");
        if (type == ElementType::fp64) {
          run<double>(kind, buffer, bytes, root);
        } else {
          run<float>(kind, buffer, bytes, root);
        }
      } catch (const std::exception& error) {
        throw Error(ErrorKind::failure, std::string("Gloo, ") + name_of(kind) + " on rank " +
                                            std::to_string(rank_) + ", " + whom_it_misses() + ": " +
                                            error.what());
      }
    });
  }

  void check() override { stream_.check(); }
  void abort() override {
    is_aborted_ = true;
    shut_down(sockets_);
  }
  std::string choice() const override { return ""; }

 private:
  template <typename T>
  void run(CollectiveKind kind, Buffer buffer, std::int64_t bytes, int root) {
    auto* data = static_cast<T*>(buffer.data);
    const auto count = static_cast<std::size_t>(bytes) / sizeof(T);
    const std::size_t share = count / static_cast<std::size_t>(ranks_);
    constexpr void (*sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<T>;
    if (count == 0) return;
    switch (kind) {
      case CollectiveKind::all_reduce: {
        gloo::AllreduceOptions options(context_);
        options.setOutput(data, count);
        options.setReduceFunction(sum);
        options.setAlgorithm(by_bcube_ ? Algorithm::BCUBE : Algorithm::RING);
        options.setTag(tag());
        return gloo::allreduce(options);
      }
      case CollectiveKind::reduce: {
        gloo::ReduceOptions options(context_);
        options.setOutput(data, count);
        options.setReduceFunction(sum);
        options.setRoot(root);
        options.setTag(tag());
        return gloo::reduce(options);
      }
      case CollectiveKind::broadcast: {
        gloo::BroadcastOptions options(context_);
        options.setOutput(data, count);
        options.setRoot(root);
        options.setTag(tag());
        return gloo::broadcast(options);
      }
      case CollectiveKind::all_gather: {
        gloo::AllgatherOptions options(context_);
        options.setOutput(data, share * static_cast<std::size_t>(ranks_));
        options.setTag(tag());
        return gloo::allgather(options);
      }
      case CollectiveKind::reduce_scatter:
        return reduce_scatter(data, share);
      case CollectiveKind::all_to_all: {
        const std::size_t whole = share * static_cast<std::size_t>(ranks_);
        gloo::AlltoallOptions options(context_);
        options.setInput(data, whole);
        options.setOutput(behind<T>(buffer, bytes, whole), whole);
        options.setTag(tag());
        return gloo::alltoall(options);
      }
      case CollectiveKind::send_recv:
        return to_the_next(data, behind<T>(buffer, bytes, count), count * sizeof(T));
    }
  }

  // Gloo tells addresses alone.
  std::string whom_it_misses() const {
    if (is_aborted_) return "which was aborted";
    const std::string which = ranks_ == 2 ? "rank " + std::to_string(1 - rank_) : "another rank";
    return "from which " + which + " is gone";
  }

  // Behind what is sent, where the buffer has room for both; else beside it.
  template <typename T>
  T* behind(Buffer buffer, std::int64_t bytes, std::size_t count) {
    if (buffer.bytes >= 2 * bytes) return reinterpret_cast<T*>(static_cast<std::byte*>(buffer.data) + bytes);
    beside_.resize(std::max(beside_.size(), count * sizeof(T)));
    return reinterpret_cast<T*>(beside_.data());
  }

  // A rank's share ends where it lies in the whole, as everywhere.
  template <typename T>
  void reduce_scatter(T* data, std::size_t share) {
    if (ranks_ == 1 || share == 0) return;
    const std::vector<int> shares(static_cast<std::size_t>(ranks_), static_cast<int>(share));
    gloo::ReduceScatterHalvingDoubling<T> algorithm(
        context_, std::vector<T*>{data}, static_cast<int>(share * static_cast<std::size_t>(ranks_)), shares,
        gloo::ReductionFunction<T>::sum);
    algorithm.run();
    if (rank_ > 0) std::memmove(data + static_cast<std::size_t>(rank_) * share, data, share * sizeof(T));
  }

  void to_the_next(void* from, void* to, std::size_t bytes) {
    const auto sent = context_->createUnboundBuffer(from, bytes);
    const auto received = context_->createUnboundBuffer(to, bytes);
    const std::uint64_t slot = (std::uint64_t{0xfe} << 56) | tag();
    received->recv((rank_ + ranks_ - 1) % ranks_, slot);
    sent->send((rank_ + 1) % ranks_, slot);
    sent->waitSend(collective_limit);
    received->waitRecv(collective_limit);
  }

  std::uint32_t tag() { return tag_++; }

  using Algorithm = gloo::AllreduceOptions::Algorithm;

  Stream& stream_;
  int rank_, ranks_;
  const bool by_bcube_ = wants_bcube();
  std::shared_ptr<gloo::Context> context_;
  Connections sockets_;  // and those of other ranks of this process that joined at the same time
  std::atomic<bool> is_aborted_{false};
  std::uint32_t tag_ = 1;  // of the next collective: each has messages of its own
  std::vector<std::byte> beside_;
};

}  // namespace

CommunicatorId make_communicator_id() {
  static std::atomic<int> number{0};
  // Set on every process of a run that meets at an address (see execute/rendezvous.hpp).
  if (const char* address = set_variable("NCCL_COMM_ID"))
    return id_of(std::string("address ") + address + " " + std::to_string(number++));
  return id_of("file " + fresh_folder());
}

std::unique_ptr<Communicator> join_communicator(Stream& stream, const CommunicatorId& id, int rank,
                                                int ranks) {
  try {
    return std::make_unique<GlooCommunicator>(stream, meeting_of(id), rank, ranks);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::failure, "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                                        " cannot join the others: " + error.what());
  }
}

}  // namespace foretrain::device::cpu

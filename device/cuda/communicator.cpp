#include "device/cuda/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "sim/base/error.hpp"

namespace foretrain::device::cuda {
namespace {

constexpr std::chrono::seconds join_limit{120}, leave_limit{2};
// All-reduces that make the connections: NCCL chooses its algorithm by size.
constexpr std::array<std::size_t, 3> connecting_bytes{8, 512 << 10, 16 << 20};

// Whether `work` has ended within `limit`; what it throws is thrown here. It runs in a thread of its own,
// which is left behind where it has not: a blocking call of NCCL's returns only when all ranks have come.
template <typename Work>
bool ends_within(std::chrono::seconds limit, Work work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  std::thread thread(std::move(task));
  if (done.wait_for(limit) != std::future_status::ready) {
    thread.detach();
    return false;
  }
  thread.join();
  done.get();
  return true;
}

std::string& choice_file() {
  static std::string file;
  return file;
}

ncclDataType_t nccl_type(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return ncclFloat32;
    case ElementType::bf16:
      return ncclBfloat16;
    case ElementType::fp16:
      return ncclFloat16;
    case ElementType::fp64:
      break;
  }
  return ncclFloat64;
}

std::int64_t element_bytes(ElementType type) {
  return type == ElementType::fp32 ? 4 : type == ElementType::fp64 ? 8 : 2;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Context& context, const CommunicatorId& id, int rank, int ranks)
      : context_(context), rank_(rank), ranks_(ranks) {
    use_device(context.device);
    ncclUniqueId unique{};
    if (id.bytes.size() != sizeof unique) throw Error(ErrorKind::input, "no name of an NCCL communicator");
    std::memcpy(&unique, id.bytes.data(), sizeof unique);
    // Shared with a thread that may outlive this call.
    const auto joined = std::make_shared<ncclComm_t>(nullptr);
    const bool came = ends_within(
        join_limit, [=, device = context.device, stream = static_cast<cudaStream_t>(context.communication)] {
          FORETRAIN_CUDA(cudaSetDevice(device));
          // Before the others' kernels run: with peers mapped an allocation may wait for them, and they for
          // us.
          void* buffer = nullptr;
          FORETRAIN_CUDA(cudaMalloc(&buffer, connecting_bytes.back()));
          FORETRAIN_CUDA(cudaMemsetAsync(buffer, 0, connecting_bytes.back(), stream));
          FORETRAIN_CUDA(cudaStreamSynchronize(stream));
          FORETRAIN_NCCL(ncclCommInitRank(joined.get(), ranks, unique, rank));
          connect(*joined, buffer, stream);
          FORETRAIN_CUDA(cudaFree(buffer));
        });
    if (!came) {
      if (*joined) ncclCommAbort(*joined);
      fail("the other ranks did not answer within " + std::to_string(join_limit.count()) + " seconds",
           "ncclCommInitRankConfig");
    }
    communicator_ = *joined;
  }
  ~NcclCommunicator() override {
    if (!communicator_) return;
    // Flushes what is under way, together with the other ranks; a rank that is gone must not hold us up.
    const bool left = ends_within(leave_limit, [device = context_.device, communicator = communicator_] {
      cudaSetDevice(device);
      ncclCommFinalize(communicator);
      ncclCommDestroy(communicator);
    });
    if (!left) ncclCommAbort(communicator_);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  void enqueue(CollectiveKind kind, Buffer buffer, std::int64_t bytes, ElementType type, int root) override {
    use_device(context_.device);
    const std::int64_t width = element_bytes(type);
    const std::int64_t count = bytes / width, share = count / ranks_;
    const bool split = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_gather ||
                       kind == CollectiveKind::all_to_all;
    const bool apart = kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_recv;
    if (bytes % width != 0 || (split && count % ranks_ != 0)) {
      throw Error(ErrorKind::input, "a collective of " + std::to_string(bytes) +
                                        " bytes cannot be shared by " + std::to_string(ranks_) + " ranks");
    }
    if (buffer.bytes < bytes) {
      throw Error(ErrorKind::input, "a buffer of " + std::to_string(buffer.bytes) +
                                        " bytes is too small for a collective of " + std::to_string(bytes));
    }
    auto* data = static_cast<std::byte*>(buffer.data);
    std::byte* received = data + bytes;
    if (apart && buffer.bytes < 2 * bytes) {
      if (received_.bytes() < bytes) received_ = DeviceMemory(context_.account, bytes);
      received = received_.data();
    }
    std::byte* mine = data + rank_ * share * width;
    const auto whole = static_cast<std::size_t>(count), part = static_cast<std::size_t>(share);
    const ncclDataType_t element = nccl_type(type);
    const cudaStream_t stream = context_.communication;
    switch (kind) {
      case CollectiveKind::all_reduce:
        FORETRAIN_NCCL(ncclAllReduce(data, data, whole, element, ncclSum, communicator_, stream));
        break;
      case CollectiveKind::reduce_scatter:
        FORETRAIN_NCCL(ncclReduceScatter(data, mine, part, element, ncclSum, communicator_, stream));
        break;
      case CollectiveKind::all_gather:
        FORETRAIN_NCCL(ncclAllGather(mine, data, part, element, communicator_, stream));
        break;
      case CollectiveKind::broadcast:
        FORETRAIN_NCCL(ncclBroadcast(data, data, whole, element, root, communicator_, stream));
        break;
      case CollectiveKind::reduce:
        FORETRAIN_NCCL(ncclReduce(data, data, whole, element, ncclSum, root, communicator_, stream));
        break;
      case CollectiveKind::all_to_all:
        all_to_all(data, received, part, share * width, element, stream);
        break;
      case CollectiveKind::send_recv:
        FORETRAIN_NCCL(ncclGroupStart());
        FORETRAIN_NCCL(ncclSend(data, whole, element, (rank_ + 1) % ranks_, communicator_, stream));
        FORETRAIN_NCCL(
            ncclRecv(received, whole, element, (rank_ + ranks_ - 1) % ranks_, communicator_, stream));
        FORETRAIN_NCCL(ncclGroupEnd());
        break;
    }
  }

  void check() override {
    ncclResult_t state = ncclSuccess;
    FORETRAIN_NCCL(ncclCommGetAsyncError(communicator_, &state));
    if (state != ncclSuccess && state != ncclInProgress)
      fail(ncclGetErrorString(state), "ncclCommGetAsyncError");
  }

  void abort() override {
    if (communicator_) ncclCommAbort(std::exchange(communicator_, nullptr));
  }

  std::string choice() const override {
    // The end of the log: it grows by a line a collective.
    constexpr std::streamoff tail = 1 << 14;
    std::ifstream log(choice_file(), std::ios::binary | std::ios::ate);
    const std::streamoff size = log.tellg();
    log.seekg(std::max<std::streamoff>(size - tail, 0));
    std::string line, last;
    while (std::getline(log, line)) {
      const std::size_t at = line.find("-> Algo ");
      if (at != std::string::npos) last = line.substr(at + 8);
    }
    return last;
  }

 private:
  void all_to_all(const std::byte* from, std::byte* to, std::size_t part, std::int64_t step,
                  ncclDataType_t element, cudaStream_t stream) {
    FORETRAIN_NCCL(ncclGroupStart());
    for (int peer = 0; peer < ranks_; ++peer) {
      FORETRAIN_NCCL(ncclSend(from + peer * step, part, element, peer, communicator_, stream));
      FORETRAIN_NCCL(ncclRecv(to + peer * step, part, element, peer, communicator_, stream));
    }
    FORETRAIN_NCCL(ncclGroupEnd());
  }

  [[noreturn]] void fail(const std::string& what, const char* call) const {
    const char* last = communicator_ ? ncclGetLastError(communicator_) : nullptr;
    throw Error(ErrorKind::failure, "NCCL: rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) +
                                        ": " + what + (last && *last ? std::string(" (") + last + ')' : "") +
                                        " in " + call);
  }

  // NCCL connects the ranks at the first collective of each algorithm. Here, so that it is done before the
  // device works: a peer that is mapped later slows the kernels of every step with collectives.
  static void connect(ncclComm_t communicator, void* buffer, cudaStream_t stream) {
    for (const std::size_t bytes : connecting_bytes) {
      FORETRAIN_NCCL(
          ncclAllReduce(buffer, buffer, bytes / sizeof(float), ncclFloat32, ncclSum, communicator, stream));
    }
    FORETRAIN_CUDA(cudaStreamSynchronize(stream));
  }

  Context& context_;
  int rank_, ranks_;
  ncclComm_t communicator_ = nullptr;
  DeviceMemory received_;
};

}  // namespace

CommunicatorId make_communicator_id() {
  ncclUniqueId unique{};
  FORETRAIN_NCCL(ncclGetUniqueId(&unique));
  CommunicatorId id;
  id.bytes.resize(sizeof unique);
  std::memcpy(id.bytes.data(), &unique, sizeof unique);
  return id;
}

std::unique_ptr<Communicator> join_communicator(Context& context, const CommunicatorId& id, int rank,
                                                int ranks) {
  return std::make_unique<NcclCommunicator>(context, id, rank, ranks);
}

void log_choices() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("NCCL_DEBUG_FILE")) return;
    const char* folder = std::getenv("TMPDIR");
    choice_file() = std::string(folder && *folder ? folder : "/tmp") + "/foretrain-nccl-" +
                    std::to_string(getpid()) + ".log";
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
    setenv("NCCL_DEBUG_FILE", choice_file().c_str(), 1);
    std::atexit([] { unlink(choice_file().c_str()); });
  });
}

}  // namespace foretrain::device::cuda

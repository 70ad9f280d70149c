#include "calibrate/rendezvous.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "sim/base/error.hpp"

namespace foretrain::calibrate {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::failure, "rendezvous of the ranks: " + what);
}
[[noreturn]] void fail_by_errno(const std::string& what) {
  fail(what + ": " + std::strerror(errno));
}

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
          .count();
  return static_cast<int>(std::max<long long>(left, 0));
}

void send_all(const Socket& socket, const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket.get(), next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail_by_errno("a rank has gone");
    next += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

void receive_all(const Socket& socket, void* data, std::size_t bytes) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = ::recv(socket.get(), next, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received == 0) fail("a rank has gone");
    if (received < 0) fail_by_errno("a rank has gone");
    next += received;
    bytes -= static_cast<std::size_t>(received);
  }
}

void without_delay(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

struct Resolved {
  addrinfo* list = nullptr;
  ~Resolved() {
    if (list) ::freeaddrinfo(list);
  }
};

Socket listen_on(int port) {
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  sockaddr_in6 any6{};
  sockaddr_in any4{};
  const sockaddr* address = reinterpret_cast<const sockaddr*>(&any6);
  socklen_t length = sizeof any6;
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (socket.get() >= 0) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  } else {  // a kernel without IPv6
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    any4.sin_family = AF_INET;
    any4.sin_port = htons(static_cast<std::uint16_t>(port));
    address = reinterpret_cast<const sockaddr*>(&any4);
    length = sizeof any4;
  }
  if (socket.get() < 0) fail_by_errno("no socket");
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address, length) != 0 || ::listen(socket.get(), 1024) != 0)
    fail_by_errno("cannot listen on port " + std::to_string(port));
  return socket;
}

Socket connect_to(const std::string& host, int port, Deadline deadline) {
  const std::string service = std::to_string(port);
  std::string why = "no address";
  while (true) {
    Resolved resolved;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    const int error = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &resolved.list);
    if (error != 0) why = ::gai_strerror(error);
    for (const addrinfo* entry = resolved.list; entry; entry = entry->ai_next) {
      Socket socket(::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, entry->ai_protocol));
      if (socket.get() < 0) continue;
      if (::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0) return socket;
      why = std::strerror(errno);
    }
    if (milliseconds_until(deadline) == 0)
      fail("rank 0 does not answer at " + host + ":" + service + " (" + why +
           "); name another address with --rendezvous");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 0 may be late
  }
}

class TcpGroup : public RankGroup {
 public:
  TcpGroup(int rank, int ranks, std::vector<Socket> peers)
      : rank_(rank), ranks_(ranks), peers_(std::move(peers)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  // A connection with an end of file waiting belongs to a rank that is gone. Values that wait are none.
  bool failed() override {
    for (const Socket& peer : peers_) {
      if (peer.get() < 0) continue;
      char byte = 0;
      const ssize_t seen = ::recv(peer.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (seen == 0 || (seen < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return true;
    }
    return false;
  }

  std::vector<double> all_gather(double value) override {
    std::vector<double> values(static_cast<std::size_t>(ranks_));
    values[static_cast<std::size_t>(rank_)] = value;
    const std::size_t bytes = values.size() * sizeof(double);
    if (rank_ == 0) {
      for (std::size_t peer = 1; peer < values.size(); ++peer)
        receive_all(peers_[peer], &values[peer], sizeof(double));
      for (std::size_t peer = 1; peer < values.size(); ++peer) send_all(peers_[peer], values.data(), bytes);
    } else {
      send_all(peers_[0], &value, sizeof value);
      receive_all(peers_[0], values.data(), bytes);
    }
    return values;
  }

  std::vector<std::byte> broadcast(std::vector<std::byte> from_rank_0) override {
    std::uint64_t size = from_rank_0.size();
    if (rank_ == 0) {
      for (std::size_t peer = 1; peer < peers_.size(); ++peer) {
        send_all(peers_[peer], &size, sizeof size);
        send_all(peers_[peer], from_rank_0.data(), from_rank_0.size());
      }
      return from_rank_0;
    }
    receive_all(peers_[0], &size, sizeof size);
    constexpr std::uint64_t limit = 1 << 20;
    if (size > limit) fail("an answer of " + std::to_string(size) + " bytes");
    std::vector<std::byte> bytes(size);
    receive_all(peers_[0], bytes.data(), bytes.size());
    return bytes;
  }

 private:
  int rank_, ranks_;
  std::vector<Socket> peers_;  // rank 0: by rank; others: rank 0 alone
};

// So that a stranger that connects by chance is not taken for a rank.
constexpr std::array<char, 8> greeting = {'f', 'o', 'r', 'e', 't', 'r', 'n', '1'};

std::vector<Socket> accept_all(const LaunchedRank& launched, Deadline deadline) {
  const Socket listener = listen_on(launched.port);
  std::vector<Socket> peers(static_cast<std::size_t>(launched.ranks));
  for (int missing = launched.ranks - 1; missing > 0;) {
    pollfd waiting{listener.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      fail(std::to_string(missing) + " of " + std::to_string(launched.ranks) + " ranks never came to port " +
           std::to_string(launched.port));
    Socket peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.get() < 0) continue;
    pollfd speaking{peer.get(), POLLIN, 0};
    if (::poll(&speaking, 1, 2000) <= 0) continue;
    std::array<char, 8> said{};
    std::int32_t rank = 0;
    try {
      receive_all(peer, said.data(), said.size());
      receive_all(peer, &rank, sizeof rank);
    } catch (const Error&) {
      continue;
    }
    if (said != greeting || rank < 1 || rank >= launched.ranks) continue;
    if (peers[static_cast<std::size_t>(rank)].get() >= 0)
      fail("two processes say that they are rank " + std::to_string(rank));
    without_delay(peer);
    peers[static_cast<std::size_t>(rank)] = std::move(peer);
    --missing;
  }
  return peers;
}

}  // namespace

std::unique_ptr<RankGroup> meet_over_tcp(const LaunchedRank& launched, double timeout_seconds) {
  if (launched.host.empty())
    throw Error(ErrorKind::input,
                launched.launcher +
                    " does not say where rank 0 runs: give --rendezvous HOST:PORT with a port that "
                    "is free on rank 0's host");
  const Deadline deadline = std::chrono::steady_clock::now() +
                            std::chrono::milliseconds(static_cast<long long>(timeout_seconds * 1000));
  std::vector<Socket> peers;
  if (launched.rank == 0) {
    peers = accept_all(launched, deadline);
  } else {
    peers.push_back(connect_to(launched.host, launched.port, deadline));
    without_delay(peers[0]);
    send_all(peers[0], greeting.data(), greeting.size());
    const std::int32_t rank = launched.rank;
    send_all(peers[0], &rank, sizeof rank);
  }
  return std::make_unique<TcpGroup>(launched.rank, launched.ranks, std::move(peers));
}

}  // namespace foretrain::calibrate

#include "device/cpu/gloo_store.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/base/error.hpp"

namespace foretrain::device::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t longest = 1 << 20;  // bytes of a key or a value

// A socket, closed with its owner.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

bool send_all(const Socket& to, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(to.get(), from, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(const Socket& from, void* data, std::size_t bytes) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(from.get(), to, bytes, 0);
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_text(const Socket& to, const std::string& text) {
  const std::uint32_t size = htonl(static_cast<std::uint32_t>(text.size()));
  return send_all(to, &size, sizeof size) && send_all(to, text.data(), text.size());
}

bool receive_text(const Socket& from, std::string& text) {
  std::uint32_t size = 0;
  if (!receive_all(from, &size, sizeof size) || ntohl(size) > longest) return false;
  text.resize(ntohl(size));
  return receive_all(from, text.data(), text.size());
}

// A request is a letter and a key. 's' is followed by the value; 'g' is answered by a letter, 'y' with the
// value behind it or 'n'.
class Server : public AddressServer {
 public:
  explicit Server(int port) : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(listening_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    auto* general = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (!listening_ || ::bind(listening_.get(), general, size) != 0 || ::listen(listening_.get(), 128) != 0 ||
        ::getsockname(listening_.get(), general, &size) != 0)
      throw Error(ErrorKind::failure,
                  "rank 0 cannot listen on port " + std::to_string(port) + ": " + std::strerror(errno));
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() override {
    ends_ = true;
    thread_.join();
  }
  int port() const override { return port_; }

 private:
  void serve() {
    while (!ends_) {
      pollfd waiting{listening_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 50) <= 0) continue;
      const Socket peer(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) continue;
      // Whoever connects and says nothing must not keep the others waiting.
      const timeval patience{1, 0};
      ::setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      answer(peer);
    }
  }

  void answer(const Socket& peer) {
    char letter = 0;
    std::string key, value;
    if (!receive_all(peer, &letter, 1) || !receive_text(peer, key)) return;
    if (letter == 's') {
      if (!receive_text(peer, value)) return;
      values_[key] = value;
      send_all(peer, "y", 1);
      return;
    }
    const auto found = values_.find(key);
    if (found == values_.end()) {
      send_all(peer, "n", 1);
      return;
    }
    if (send_all(peer, "y", 1)) send_text(peer, found->second);
  }

  Socket listening_;
  int port_ = 0;
  std::atomic<bool> ends_{false};
  std::map<std::string, std::string> values_;
  std::thread thread_;
};

struct Place {
  std::string host, port;
};

Place place_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    throw Error(ErrorKind::input, "'" + address + "' is no address of the form host:port");
  return {address.substr(0, colon), address.substr(colon + 1)};
}

// Of the given kind; none where nobody listens there.
Socket connect_to(const std::string& address, int kind) {
  const Place place = place_of(address);
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = kind;
  if (::getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found) != 0) return Socket();
  Socket socket;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Socket attempt(::socket(each->ai_family, kind | SOCK_CLOEXEC, 0));
    if (attempt && ::connect(attempt.get(), each->ai_addr, each->ai_addrlen) == 0) {
      socket = std::move(attempt);
      break;
    }
  }
  ::freeaddrinfo(found);
  return socket;
}

class Client : public gloo::rendezvous::Store {
 public:
  Client(std::string address, std::string prefix, double limit)
      : address_(std::move(address)), prefix_(std::move(prefix)), limit_(limit) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    repeat(limit_, "leave its address", [&] {
      const Socket server = connect_to(address_, SOCK_STREAM);
      char answer = 0;
      return server && send_all(server, "s", 1) && send_text(server, prefix_ + key) &&
             send_text(server, std::string(data.begin(), data.end())) && receive_all(server, &answer, 1) &&
             answer == 'y';
    });
  }

  std::vector<char> get(const std::string& key) override {
    std::string value;
    repeat(limit_, "find another rank's address", [&] { return ask(key, value); });
    return {value.begin(), value.end()};
  }

  void wait(const std::vector<std::string>& keys) override { wait_for(keys, limit_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    wait_for(keys, std::chrono::duration<double>(timeout).count());
  }

 private:
  bool ask(const std::string& key, std::string& value) {
    const Socket server = connect_to(address_, SOCK_STREAM);
    char answer = 0;
    return server && send_all(server, "g", 1) && send_text(server, prefix_ + key) &&
           receive_all(server, &answer, 1) && answer == 'y' && receive_text(server, value);
  }

  void wait_for(const std::vector<std::string>& keys, double limit) {
    std::string value;
    for (const std::string& key : keys)
      repeat(limit, "find another rank's address", [&] { return ask(key, value); });
  }

  template <typename Attempt>
  void repeat(double limit, const char* what, const Attempt& attempt) {
    const auto end = Clock::now() + std::chrono::duration<double>(limit);
    while (!attempt()) {
      if (Clock::now() > end)
        throw Error(ErrorKind::failure, "a rank could not " + std::string(what) + " at " + address_ +
                                            " within " + std::to_string(static_cast<int>(limit)) + " s");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  std::string address_, prefix_;
  double limit_;
};

}  // namespace

std::unique_ptr<AddressServer> serve_addresses(int port) {
  return std::make_unique<Server>(port);
}

std::unique_ptr<gloo::rendezvous::Store> store_at(const std::string& address, const std::string& prefix,
                                                  double limit) {
  return std::make_unique<Client>(address, prefix, limit);
}

std::string own_address_towards(const std::string& address) {
  const Socket socket = connect_to(address, SOCK_DGRAM);  // sends nothing
  sockaddr_in own{};
  socklen_t size = sizeof own;
  char text[INET_ADDRSTRLEN] = {};
  if (!socket || ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      ::inet_ntop(AF_INET, &own.sin_addr, text, sizeof text) == nullptr)
    return "";
  return text;
}

}  // namespace foretrain::device::cpu

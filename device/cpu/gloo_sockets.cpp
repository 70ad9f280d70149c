#include "device/cpu/gloo_sockets.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace foretrain::device::cpu {
namespace {

// What lies at a descriptor of other threads is theirs to open and close meanwhile: its name is read, which
// does not use it as fstat would. "socket:[INODE]" (proc(5)); 0 where it is no connected TCP socket.
ino_t connection_at(int descriptor) {
  std::error_code gone;
  const std::string name =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), gone).string();
  constexpr std::string_view socket = "socket:[";
  if (!name.starts_with(socket)) return 0;
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return 0;
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return 0;
  return std::strtoul(name.c_str() + socket.size(), nullptr, 10);
}

}  // namespace

Connections connections() {
  Connections found;
  std::error_code ended;
  for (std::filesystem::directory_iterator each("/proc/self/fd", ended), end; !ended && each != end;
       each.increment(ended)) {
    const int descriptor = std::atoi(each->path().filename().c_str());
    if (const ino_t inode = connection_at(descriptor); inode != 0) found.emplace(descriptor, inode);
  }
  return found;
}

Connections made_since(const Connections& before, const Connections& now) {
  Connections made;
  for (const auto& [descriptor, inode] : now) {
    const auto known = before.find(descriptor);
    if (known == before.end() || known->second != inode) made.emplace(descriptor, inode);
  }
  return made;
}

void shut_down(const Connections& which) {
  for (const auto& [descriptor, inode] : which)
    if (connection_at(descriptor) == inode) ::shutdown(descriptor, SHUT_RDWR);
}

}  // namespace foretrain::device::cpu

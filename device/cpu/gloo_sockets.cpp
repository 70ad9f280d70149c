#include "device/cpu/gloo_sockets.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

namespace foretrain::device::cpu {
namespace {

// 0 where the descriptor is no connected TCP socket.
ino_t connection_at(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0 || !S_ISSOCK(facts.st_mode)) return 0;
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return 0;
  return peer.ss_family == AF_INET || peer.ss_family == AF_INET6 ? facts.st_ino : 0;
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

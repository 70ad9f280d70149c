// The connections of a communicator, which Gloo keeps for itself: to shut them down wakes who waits for what
// would come by them, as where the peer has died. Context::closeConnections() does not.
#pragma once

#include <sys/types.h>

#include <map>

namespace foretrain::device::cpu {

// Connected TCP sockets of this process: descriptor, and the inode that tells a socket from a later one.
using Connections = std::map<int, ino_t>;
Connections connections();

// Those of `now` that `before` does not have.
Connections made_since(const Connections& before, const Connections& now);

// As far as they are still the same.
void shut_down(const Connections& which);

}  // namespace foretrain::device::cpu

#include "device/cpu/communicator.hpp"

// With Gloo it is gloo_communicator.cpp that holds these.
#ifndef FORETRAIN_GLOO

namespace foretrain::device::cpu {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      ErrorKind::unavailable,
      "the cpu backend was built without Gloo and exchanges nothing: install it (Debian: libgloo-dev) "
      "and build again");
}

}  // namespace

CommunicatorId make_communicator_id() {
  refuse();
}

std::unique_ptr<Communicator> join_communicator(Stream&, const CommunicatorId&, int, int) {
  refuse();
}

}  // namespace foretrain::device::cpu

#endif

#include "tests/support/cpu_backend.hpp"

#include <cstdio>

#include "device/registry.hpp"

namespace foretrain::test {

device::Backend* cpu_backend() {
  try {
    return &device::open_backend("cpu");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    std::fprintf(stderr, "skipped: %s\n", error.what());
    return nullptr;
  }
}

}  // namespace foretrain::test

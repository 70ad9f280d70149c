// What the program looks for in the module.
#include "device/cpu/backend.hpp"

extern "C" __attribute__((visibility("default"))) foretrain::device::Backend* foretrain_backend(
    int wanted_abi) {
  if (wanted_abi != foretrain::device::Backend::abi) return nullptr;
  static const auto backend = foretrain::device::cpu::make_backend();
  return backend.get();
}

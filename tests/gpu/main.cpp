// Tests of the cuda backend that need a GPU, and with the argument `steps` a table of step times. Where no
// GPU answers they are skipped, and that is no failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

#include "device/registry.hpp"
#include "sim/base/error.hpp"
#include "tests/gpu/steps.hpp"

int main(int argc, char** argv) {
  try {
    if (foretrain::device::open_backend("cuda").device_count() == 0) {
      std::puts("skipped: no GPU");
      return 0;
    }
    if (argc > 1 && std::strcmp(argv[1], "steps") == 0) {
      return foretrain::test::time_steps({argv + 2, argv + argc});
    }
  } catch (const foretrain::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  }
  doctest::Context context(argc, argv);
  return context.run();
}

#include "device/registry.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"

using namespace foretrain;

TEST_CASE("a backend that is not there is named, with the folders looked in") {
  REQUIRE(!device::module_folders().empty());
  try {
    device::open_backend("abacus");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unavailable);
    CHECK(std::string(error.what()).find("libforetrain_abacus.so") != std::string::npos);
    CHECK(std::string(error.what()).find(device::module_folders().back().string()) != std::string::npos);
  }
  CHECK_THROWS_AS(device::choose_backend("abacus"), Error);
}

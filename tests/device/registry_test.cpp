#include "device/registry.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "sim/base/error.hpp"
#include "tests/app/subprocess.hpp"

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

// No driver, one that is too old for the toolkit, or no GPU: the library knows which.
TEST_CASE("where no GPU answers its library's reason is told") {
  const auto program = std::filesystem::path(FORETRAIN_PROGRAM);
  if (!std::filesystem::exists(program.parent_path() / "libforetrain_cuda.so")) return;
  const test::TemporaryFolder folder;
  test::RunOptions no_gpu;
  no_gpu.environment = {"CUDA_VISIBLE_DEVICES="};
  const test::Finished done = test::run_foretrain(
      {"calibrate", "--collectives", "--device", "cuda", "--out", folder.path("p.json")}, no_gpu);
  CAPTURE(done.err);
  CHECK(done.status == 4);
  CHECK(done.err.find("no device of the backend \"cuda\" answers (") != std::string::npos);
  CHECK(done.err.find("CUDA", done.err.find(" answers (")) != std::string::npos);
  CHECK(folder.files().empty());
}

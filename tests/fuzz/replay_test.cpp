// Seeds of the fuzz targets, inputs that were findings among them, without a fuzzer: each ends in a result or
// in foretrain::Error.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sim/import/importer.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace foretrain;

TEST_CASE("seeds of the fuzz targets are read or refused") {
  const std::filesystem::path seeds = std::filesystem::path(FORETRAIN_SOURCE_DIR) / "tests/fuzz/seeds";
  for (const auto& each : fuzz::targets()) {
    const auto& name = each.first;
    const auto& target = each.second;
    CAPTURE(name);
    int files = 0;
    if (!std::filesystem::exists(seeds / name)) continue;  // what ships is the seed
    for (const auto& file : std::filesystem::directory_iterator(seeds / name)) {
      INFO(file.path().string());
      std::ifstream in(file.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      CHECK_NOTHROW(fuzz::guarded([&, run = target] { run(text); }));
      ++files;
    }
    CHECK(files > 0);
  }
}

TEST_CASE("each folder of seeds has its target") {
  const std::filesystem::path seeds = std::filesystem::path(FORETRAIN_SOURCE_DIR) / "tests/fuzz/seeds";
  for (const auto& folder : std::filesystem::directory_iterator(seeds))
    CHECK(fuzz::targets().contains(folder.path().filename().string()));
  for (const Importer& importer : importers()) {
    std::string name = importer.name;
    std::replace(name.begin(), name.end(), '-', '_');
    CHECK(fuzz::targets().contains(name));
  }
}

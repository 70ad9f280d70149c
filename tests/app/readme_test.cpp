// What README shows is what the program prints.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/app/subprocess.hpp"

using namespace foretrain;

TEST_CASE("README shows the output of ./run") {
  const std::string source = FORETRAIN_SOURCE_DIR;
  std::vector<std::string> arguments;
  for (const auto& entry : std::filesystem::directory_iterator(source + "/scenarios")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("resnet50-")) arguments.push_back(entry.path().string());
  }
  std::sort(arguments.begin(), arguments.end());
  arguments.insert(arguments.begin(), "simulate");
  const test::Finished done = test::run_foretrain(arguments);
  REQUIRE(done.status == 0);
  // The line on validation is of the working folder.
  std::string shown = test::read_file(source + "/README.md"), line = "last validated:";
  const std::size_t begin = shown.find(line);
  REQUIRE(begin != std::string::npos);
  shown.erase(begin, shown.find('\n', begin) + 1 - begin);
  std::string out = done.out;
  if (const std::size_t at = out.find(line); at != std::string::npos)
    out.erase(at, out.find('\n', at) + 1 - at);
  CHECK(shown.find("```\n" + out + "```\n") != std::string::npos);
}

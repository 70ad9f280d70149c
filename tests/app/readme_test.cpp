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
  // The lines on validation are of the working folder.
  const auto without_validation = [](std::string text) {
    for (const std::string begin : {"\nlast validated", "\nnot validated"}) {
      for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin))
        text.erase(at, text.find('\n', at + 1) - at);
    }
    return text;
  };
  const std::string whole = test::read_file(source + "/README.md");
  const std::string shown = without_validation(whole), out = without_validation(done.out);
  CHECK(shown.size() < whole.size());
  CHECK(shown.find("```\n" + out + "```\n") != std::string::npos);
}

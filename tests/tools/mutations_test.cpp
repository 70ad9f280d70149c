// tests/mutations.txt, which tools/mutate.py tries: each fault still applies to the source that it is meant
// for.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "tests/app/subprocess.hpp"

using namespace foretrain;

namespace {

const std::filesystem::path source = FORETRAIN_SOURCE_DIR;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("each mutation applies to one place of a source, and names tests that exist") {
  std::istringstream list(test::read_file((source / "tests/mutations.txt").string()));
  std::set<std::string> functions;
  std::string text;
  int mutations = 0;
  for (std::string line; std::getline(list, line);) {
    CAPTURE(line);
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, space), rest = line.substr(std::min(space + 1, line.size()));
    if (word == "function") functions.insert(rest);
    if (word == "file") text = test::read_file((source / rest).string());
    if (word == "tests") {
      std::istringstream names(rest);
      for (std::string name; names >> name;) CHECK(std::filesystem::exists(source / "tests" / name));
    }
    if (word != "-") continue;
    CHECK(count_of(text, rest) == 1);
    ++mutations;
  }
  CHECK(functions.size() == 5);
  CHECK(mutations > 60);
}

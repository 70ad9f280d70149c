#include "sim/input/sequence_lengths.hpp"

#include <doctest/doctest.h>

#include "tests/app/subprocess.hpp"

using namespace foretrain;

namespace {

// The histogram of a file as "16:900 64:80", or what is wrong with it.
std::string read(const std::string& content) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("lengths.csv", content);
  Diagnostics diagnostics;
  const auto map = parse_document("{ lengths: '" + file + "' }", "s.yaml", diagnostics);
  REQUIRE(map);
  const auto lengths = read_sequence_lengths(*map, diagnostics);
  if (!lengths) return diagnostics.errors().front().text().substr(file.size() - 11);
  std::string all;
  for (const LengthCount& each : lengths->histogram)
    all += (all.empty() ? "" : " ") + std::to_string(each.length) + ':' + std::to_string(int(each.weight));
  return all;
}

}  // namespace

TEST_CASE("a file of lengths: with a head or a byte-order mark, separated by commas, semicolons or blanks") {
  for (const char* text : {"16,900\n64,80\n", "length,count\n16,900\n64,80\n", "16;900\r\n64;80\r\n",
                           "\xef\xbb\xbf"
                           "16 900\n64 80",
                           "# of a corpus\nlength count\n64\t80\n16\t900\n"}) {
    CAPTURE(text);
    CHECK(read(text) == "16:900 64:80");
  }
}

TEST_CASE("a line that is no length is an error, but for a head") {
  CHECK(read("16\n32\nabc\n") == "lengths.csv:3:1: lengths: 'abc' is no length of a sequence, 1 to 10000000");
  CHECK(read("length\nlength\n16\n").find("lengths.csv:2:1: ") == 0);
}

TEST_CASE("a file that no file names is the caller's") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("l.csv", "16,900\n");
  for (const std::string& name : {"--set sequence={lengths: " + file + "}", std::string("standard-input")})
    CHECK(path_beside(name, "a/l.csv") == "a/l.csv");
  CHECK(path_beside(file, "b/m.csv") == folder.path("b/m.csv"));
}

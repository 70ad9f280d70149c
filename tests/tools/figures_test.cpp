// The scripts that make the tables and figures of docs/cases.md: what they print is what the page says.
#include <doctest/doctest.h>

#include <sstream>

#include "tests/app/subprocess.hpp"

using namespace foretrain;

namespace {

const std::string source = FORETRAIN_SOURCE_DIR;

bool has_python() {
  return test::run_command({"python3", "-c", "import json"}).status == 0;
}

void check_table(const std::vector<std::string>& command, std::size_t rows) {
  const test::Finished done = test::run_command(command);
  INFO(done.err);
  REQUIRE(done.status == 0);
  const std::string page = test::read_file(source + "/docs/cases.md");
  std::istringstream lines(done.out);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    CHECK(page.find(line + "\n") != std::string::npos);
  }
  CHECK(count == rows + 2);
}

}  // namespace

TEST_CASE("case 3's table of schedules, networks and worker rules" * doctest::skip(!has_python())) {
  const test::TemporaryFolder folder;
  const std::string figure = folder.path("case-3.svg");
  check_table({"python3", "-B", source + "/tools/case_3.py",
               std::filesystem::read_symlink("/proc/self/exe").parent_path() / "foretrain", figure},
              20);
  CHECK(test::read_file(figure) == test::read_file(source + "/docs/figures/case-3.svg"));
}

TEST_CASE("the synthetic experiment's table is that of its results" * doctest::skip(!has_python())) {
  const test::TemporaryFolder folder;
  const std::string figure = folder.path("damping.svg");
  check_table({"python3", "-B", source + "/tools/damping_figure.py",
               source + "/validation/damping/results.csv", figure},
              6);
  CHECK(test::read_file(figure) == test::read_file(source + "/docs/figures/damping.svg"));
}

TEST_CASE("case 4's columns of seconds, words and launches" * doctest::skip(!has_python())) {
  check_table({"python3", "-B", source + "/tools/case_4.py",
               std::filesystem::read_symlink("/proc/self/exe").parent_path() / "foretrain"},
              51);
}

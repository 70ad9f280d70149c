#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "tests/app/subprocess.hpp"

using foretrain::test::Finished;
using foretrain::test::run_command;
using foretrain::test::run_foretrain;
using foretrain::test::RunOptions;

namespace {

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::size_t longest = 0;
  while (std::getline(lines, line)) longest = std::max(longest, line.size());
  return longest;
}

}  // namespace

TEST_CASE("help and version go to standard output, within 80 columns") {
  for (const char* argument : {"--help", "-h", "help"}) {
    const Finished help = run_foretrain({argument});
    CHECK(help.status == 0);
    CHECK(help.err.empty());
    CHECK(help.out.find("usage: foretrain VERB") != std::string::npos);
    CHECK(longest_line(help.out) <= 80);
  }
  const Finished version = run_foretrain({"--version"});
  CHECK(version.status == 0);
  CHECK(version.out.starts_with("foretrain " FORETRAIN_VERSION "\n"));
}

TEST_CASE("wrong usage is status 2, one line on standard error, nothing on standard output") {
  const std::vector<std::vector<std::string>> cases{
      {}, {"simlate", "x.yaml"}, {"nonsense"}, {"--jason"}, {""}};
  for (const auto& arguments : cases) {
    const Finished wrong = run_foretrain(arguments);
    CHECK(wrong.status == 2);
    CHECK(wrong.out.empty());
    CHECK(std::count(wrong.err.begin(), wrong.err.end(), '\n') == 1);
  }
  CHECK(run_foretrain({"simlate", "x.yaml"}).err.find("did you mean 'simulate'") != std::string::npos);
  CHECK(run_foretrain({"nonsense"}).err.find("did you mean") == std::string::npos);
}

TEST_CASE("a message stays one line whatever it quotes") {
  const Finished wrong = run_foretrain({"two\nlines\x1b[31m"});
  CHECK(wrong.status == 2);
  CHECK(std::count(wrong.err.begin(), wrong.err.end(), '\n') == 1);
  CHECK(wrong.err.find('\x1b') == std::string::npos);
}

TEST_CASE("a full disk is a failure, a closed pipe ends quietly") {
  const Finished full = run_command({"/bin/sh", "-c", "\"$0\" --help > /dev/full", FORETRAIN_PROGRAM});
  CHECK(full.status == 1);
  CHECK(full.err.find("standard output: cannot write") != std::string::npos);

  RunOptions nobody_reads;
  nobody_reads.close_output_early = true;
  const Finished closed = run_foretrain({"--help"}, nobody_reads);
  CHECK(closed.status == 128 + 13);
  CHECK(closed.err.empty());
}

TEST_CASE("the program links no library of a device") {
  const Finished libraries = run_command({"ldd", FORETRAIN_PROGRAM});
  REQUIRE(libraries.status == 0);
  for (const char* name : {"cuda", "cudnn", "nccl", "cublas", "nvidia", "dnnl", "gloo"}) {
    CAPTURE(name);
    // A library's name, not a part of the path that it is found under.
    CHECK(libraries.out.find(std::string("lib") + name) == std::string::npos);
  }
}

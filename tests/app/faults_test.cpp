// What the system does to the program: no room for a file, signals at any time, two writers of one file,
// inputs that end early.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "sim/input/json_tree.hpp"
#include "tests/app/subprocess.hpp"

using namespace foretrain;
using test::Finished;
using test::run_command;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

using Names = std::vector<std::string>;

const std::string scenario = std::string(FORETRAIN_SOURCE_DIR) + "/scenarios/second-node.yaml";

bool is_json(const std::string& text) {
  Diagnostics diagnostics;
  return JsonTree::parse(text, "out.json", diagnostics).has_value();
}

}  // namespace

TEST_CASE("a file that finds no room is an error, and what was there stays") {
  const TemporaryFolder folder;
  const std::string out = folder.write("out.json", "before");
  // A process may write files of 512 bytes.
  const Finished full =
      run_command({"/bin/sh", "-c", "ulimit -f 1; exec \"$0\" simulate \"$1\" -q --json \"$2\"",
                   FORETRAIN_PROGRAM, scenario, out});
  CHECK(full.status == 1);
  CHECK(full.err.find("out.json: cannot write: File too large") != std::string::npos);
  CHECK(test::read_file(out) == "before");
  CHECK(folder.files() == Names{"out.json"});
}

TEST_CASE("a signal at any time ends a sweep with whole files or none") {
  for (const int milliseconds : {1, 20, 60, 150, 400}) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXCPU}) {
      CAPTURE(milliseconds);
      CAPTURE(signal);
      const TemporaryFolder folder;
      test::RunOptions options;
      options.signal = signal;
      options.signal_after_ms = milliseconds;
      const Finished done =
          run_foretrain({"sweep", scenario, "--vary", "batch.per_worker=8,16,24,32,40,48,56,64", "--vary",
                         "cluster.nodes=1,2,4,8,16", "-q", "--json", folder.path("out.json")},
                        options);
      const bool is_there = std::filesystem::exists(folder.path("out.json"));
      CHECK(folder.files() == (is_there ? Names{"out.json"} : Names()));
      if (is_there) CHECK(is_json(test::read_file(folder.path("out.json"))));
      if (done.status == 0) CHECK(is_there);
    }
  }
}

TEST_CASE("two processes that write one file leave the whole file of one of them") {
  const TemporaryFolder folder;
  const std::string out = folder.path("out.json");
  const Finished both = run_command({"/bin/sh", "-c",
                                     "for i in 1 2 3 4; do \"$0\" simulate \"$1\" -q --json \"$2\" --set "
                                     "batch.per_worker=$i >/dev/null & done; wait",
                                     FORETRAIN_PROGRAM, scenario, out});
  CHECK(both.status == 0);
  CHECK(is_json(test::read_file(out)));
  CHECK(folder.files() == Names{"out.json"});
}

TEST_CASE("a profile that ends early is an error that names it, wherever it ends") {
  const TemporaryFolder folder;
  const std::string whole = test::read_file(std::string(FORETRAIN_SOURCE_DIR) + "/profiles/h100.json.gz");
  REQUIRE(!whole.empty());
  for (const std::size_t tenths : {0U, 1U, 3U, 5U, 9U}) {
    CAPTURE(tenths);
    const std::string cut = folder.write("cut.json.gz", whole.substr(0, whole.size() * tenths / 10));
    const Finished done = run_foretrain({"simulate", scenario, "-q", "--profile", cut});
    CHECK(done.status == 2);
    CHECK(done.err.find("cut.json.gz") != std::string::npos);
    CHECK(done.out.empty());
  }
}

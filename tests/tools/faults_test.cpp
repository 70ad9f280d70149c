// tools/faults.sh: real processes of a run are killed, stopped and starved, on the reference backend.
#include <doctest/doctest.h>

#include "tests/app/subprocess.hpp"

using namespace foretrain;

namespace {

bool has_tools() {
  return test::run_command({"sh", "-c", "command -v bash awk stat mount"}).status == 0;
}

}  // namespace

TEST_CASE("a killed rank, a full disk, too large a batch, a wrong interface and a hang end with an error" *
          doctest::skip(!has_tools())) {
  const test::TemporaryFolder folder;
  const test::Finished done =
      test::run_command({"bash", std::string(FORETRAIN_SOURCE_DIR) + "/tools/faults.sh",
                         std::filesystem::read_symlink("/proc/self/exe").parent_path() / "foretrain",
                         folder.path("faults"), "reference"});
  INFO(done.out, done.err);
  CHECK(done.status == 0);
  for (const char* line :
       {"ok | kill -9 of rank 1 | status 1 | ", "rank 1 has gone while training: process ",
        " at a checkpoint | status 1 | ",
        "/state: cannot write: ", "ok | a batch too large for the memory | status 1 | ",
        "does not fit into the device's memory", "ok | a wrong NCCL_SOCKET_IFNAME on rank 1 | status 2 | ",
        "ok | a collective that hangs: rank 1 is stopped | status 1 | ", "trained on from update 10",
        "0 of 5 faults ended wrongly"}) {
    CAPTURE(line);
    CHECK(done.out.find(line) != std::string::npos);
  }
}

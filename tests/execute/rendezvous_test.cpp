#include "execute/rendezvous.hpp"

#include <doctest/doctest.h>

#include "tests/support/environments.hpp"

using namespace foretrain;

namespace {

using test::environment_of;
using Kind = LaunchEnvironment::Kind;

}  // namespace

TEST_CASE("processes meet by NCCL's address, a file, or the launcher's address") {
  LaunchEnvironment worker;
  worker.kind = Kind::process_a_worker;
  worker.ranks = 2;
  CHECK_THROWS_WITH_AS(choose_rendezvous(worker, environment_of({})),
                       doctest::Contains("set NCCL_COMM_ID=host:port"), Error);
  CHECK(choose_rendezvous({}, environment_of({{"NCCL_COMM_ID", "a:1"}})).kind ==
        Rendezvous::Kind::in_process);
  CHECK(choose_rendezvous(worker, environment_of({{"NCCL_COMM_ID", "a:1"}})).address == "a:1");
  CHECK(choose_rendezvous(worker, environment_of({{"FORETRAIN_RENDEZVOUS", "/f"}})).path == "/f");
  const Environment master = environment_of({{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}});
  CHECK(choose_rendezvous(worker, master).address == "10.0.0.1:29500");
  worker.launcher = "torchrun";
  CHECK(choose_rendezvous(worker, master).address == "10.0.0.1:29501");
}

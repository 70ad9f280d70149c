#include "device/launch_environment.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/support/environments.hpp"

using namespace foretrain;

namespace {

using test::environment_of;
using Kind = LaunchEnvironment::Kind;

}  // namespace

TEST_CASE("launchers are known by their variables") {
  CHECK(read_launch_environment(environment_of({})).kind == Kind::alone);
  // A shell within an allocation is no task of it.
  CHECK(read_launch_environment(environment_of({{"SLURM_NTASKS", "4"}})).kind == Kind::alone);
  const std::map<std::string, std::string> cases[] = {
      {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
      {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}},
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}}};
  for (const auto& variables : cases) {
    const LaunchEnvironment launch = read_launch_environment(environment_of(variables));
    CHECK(launch.kind == Kind::process_a_worker);
    CHECK(launch.rank == 3);
    CHECK(launch.ranks == 4);
    CHECK(launch.local_rank == 1);
  }
  // MPICH's mpirun, too.
  CHECK(read_launch_environment(
            environment_of({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}}))
            .launcher == "mpirun");
  const LaunchEnvironment node =
      read_launch_environment(environment_of({{"NODE_RANK", "1"}, {"NNODES", "2"}}));
  CHECK(node.kind == Kind::process_a_node);
  CHECK(node.node == 1);
  CHECK(node.nodes == 2);
  CHECK_THROWS_WITH_AS(read_launch_environment(environment_of({{"NODE_RANK", "2"}, {"NNODES", "2"}})),
                       "NODE_RANK is 2, but NNODES is 2", Error);
  CHECK_THROWS_WITH_AS(read_launch_environment(environment_of({{"NODE_RANK", "x"}, {"NNODES", "2"}})),
                       doctest::Contains("NODE_RANK is 'x', not a number"), Error);
  CHECK_THROWS_WITH_AS(read_launch_environment(environment_of({{"OMPI_COMM_WORLD_RANK", "0"}})),
                       doctest::Contains("OMPI_COMM_WORLD_SIZE is missing"), Error);
}

TEST_CASE("NCCL_HOSTID names a node before the host does") {
  CHECK(node_name(environment_of({{"NCCL_HOSTID", "a"}})) == "a");
  CHECK_FALSE(node_name(environment_of({})).empty());
}

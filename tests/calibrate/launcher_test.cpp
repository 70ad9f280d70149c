#include "calibrate/launcher.hpp"

#include <doctest/doctest.h>

#include <map>

#include "sim/base/error.hpp"
#include "tests/support/environments.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;

namespace {

Environment of(std::map<std::string, std::string> variables) {
  return test::environment_of(std::move(variables));
}

}  // namespace

TEST_CASE("the launchers tell a process its rank") {
  const auto torchrun = launched_rank(of({{"RANK", "3"},
                                          {"WORLD_SIZE", "4"},
                                          {"LOCAL_RANK", "1"},
                                          {"MASTER_ADDR", "n1"},
                                          {"MASTER_PORT", "29400"}}),
                                      "");
  REQUIRE(torchrun);
  CHECK(torchrun->launcher == "torchrun");
  CHECK(torchrun->rank == 3);
  CHECK(torchrun->ranks == 4);
  CHECK(torchrun->local_rank == 1);
  CHECK(torchrun->host == "n1");
  CHECK(torchrun->port == 29401);

  const auto srun = launched_rank(of({{"SLURM_PROCID", "0"},
                                      {"SLURM_NTASKS", "16"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_STEP_NODELIST", "gpu[03-04,7]"},
                                      {"SLURM_JOB_ID", "1234567"}}),
                                  "");
  REQUIRE(srun);
  CHECK(srun->launcher == "srun");
  CHECK(srun->host == "gpu03");
  CHECK(srun->port == 20000 + 1234567 % 20000);

  const std::map<std::string, std::string> mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  const auto nowhere = launched_rank(of(mpi), "");
  REQUIRE(nowhere);
  CHECK(nowhere->launcher == "mpirun");
  CHECK(nowhere->host.empty());
  const auto named = launched_rank(of(mpi), "[fe80::1]:5000");
  CHECK(named->host == "fe80::1");
  CHECK(named->port == 5000);
  auto with_id = mpi;
  with_id["NCCL_COMM_ID"] = "10.0.0.1:7000";
  CHECK(launched_rank(of(with_id), "")->host == "10.0.0.1");
  CHECK(launched_rank(of(with_id), "")->port == 7001);
}

TEST_CASE("a process a node, as tools/nodes.sh starts them") {
  const auto node =
      launched_rank(of({{"NODE_RANK", "1"}, {"NNODES", "2"}, {"NCCL_COMM_ID", "10.77.0.1:29511"}}), "");
  REQUIRE(node);
  CHECK(node->launcher == "NODE_RANK");
  CHECK(node->rank == 1);
  CHECK(node->ranks == 2);
  CHECK(node->host == "10.77.0.1");
  CHECK(node->port == 29512);
}

TEST_CASE("a process a node serves a rank a device, one a rank serves its own") {
  const auto node =
      launched_rank(of({{"NODE_RANK", "1"}, {"NNODES", "3"}, {"NCCL_COMM_ID", "10.77.0.1:29511"}}), "");
  const auto served = ranks_served(*node, 2);
  REQUIRE(served.size() == 2);
  for (int device = 0; device < 2; ++device) {
    const LaunchedRank& rank = served[static_cast<std::size_t>(device)];
    CHECK(rank.rank == 2 + device);
    CHECK(rank.ranks == 6);
    CHECK(rank.local_rank == device);
    CHECK(rank.port == 29512);
  }
  const auto own =
      launched_rank(of({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "a"}}), "");
  REQUIRE(ranks_served(*own, 8).size() == 1);
  CHECK(ranks_served(*own, 8).front().rank == 3);
  CHECK(ranks_served(*own, 8).front().ranks == 4);
}

TEST_CASE("a process alone is none of several") {
  CHECK_FALSE(launched_rank(of({}), ""));
  CHECK_FALSE(launched_rank(of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}), ""));
}

TEST_CASE("contradictions in the environment are errors") {
  CHECK_THROWS_AS(launched_rank(of({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), ""), Error);
  CHECK_THROWS_AS(launched_rank(of({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), ""), Error);
  CHECK_THROWS_AS(launched_rank(of({{"RANK", "0"}, {"WORLD_SIZE", "4"}}), "nohost"), Error);
  CHECK_THROWS_AS(launched_rank(of({{"RANK", "0"}, {"WORLD_SIZE", "4"}}), "host:99999"), Error);
}

TEST_CASE("the first host of a Slurm list") {
  CHECK(first_host("n1") == "n1");
  CHECK(first_host("n1,n2") == "n1");
  CHECK(first_host("gpu[03-07,11],login") == "gpu03");
  CHECK(first_host("gpu[5]") == "gpu5");
  CHECK(first_host("a,gpu[03-07]") == "a");
}

TEST_CASE("NCCL_HOSTID tells nodes apart that share a name") {
  CHECK(host_id(of({{"NCCL_HOSTID", "a"}})) != host_id(of({{"NCCL_HOSTID", "b"}})));
  CHECK(host_id(of({{"NCCL_HOSTID", "a"}})) == host_id(of({{"NCCL_HOSTID", "a"}})));
  CHECK(host_id(of({})) == host_id(of({})));
}

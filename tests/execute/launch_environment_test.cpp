#include "execute/launch_environment.hpp"

#include <doctest/doctest.h>

#include <map>

#include "execute/rendezvous.hpp"
#include "sim/network/families.hpp"

using namespace foretrain;

namespace {

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Cluster cluster_of(int nodes, int gpus_per_node) {
  EthernetNodes family;
  family.nodes = nodes;
  family.gpus_per_node = gpus_per_node;
  family.network.bandwidth = Rate(1.25e9);
  Cluster cluster;
  cluster.topology = make_topology(family);
  return cluster;
}

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

TEST_CASE("ranks and devices of this process") {
  LaunchEnvironment node;
  node.kind = Kind::process_a_node;
  node.node = 1;
  node.nodes = 2;
  const LocalWorkers two = assign_workers(node, cluster_of(2, 2), 2);
  CHECK(two.first_rank == 2);
  CHECK(two.world == 4);
  CHECK(two.devices == std::vector<int>{0, 1});
  LaunchEnvironment worker;
  worker.kind = Kind::process_a_worker;
  worker.launcher = "mpirun";
  worker.rank = 3;
  worker.ranks = 4;
  worker.local_rank = 1;
  CHECK(assign_workers(worker, cluster_of(2, 2), 2).devices == std::vector<int>{1});
  CHECK(assign_workers(worker, cluster_of(2, 2), 1).devices == std::vector<int>{0});
  CHECK(assign_workers(worker, cluster_of(2, 2), 2).first_rank == 3);
}

TEST_CASE("a cluster that is not there is an error that names both") {
  const auto message = [](const LaunchEnvironment& launch, const Cluster& cluster, int devices) {
    try {
      assign_workers(launch, cluster, devices);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::unavailable);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  LaunchEnvironment alone;
  CHECK(message(alone, cluster_of(1, 4), 2) ==
        "the scenario's cluster has 4 workers on 1 node; what is there: 2 devices");
  CHECK(message(alone, cluster_of(2, 1), 2).find("2 workers on 2 nodes; what is there: one process") !=
        std::string::npos);
  LaunchEnvironment worker;
  worker.kind = Kind::process_a_worker;
  worker.launcher = "srun";
  worker.ranks = 3;
  CHECK(message(worker, cluster_of(2, 2), 2).find("3 processes started by srun") != std::string::npos);
  LaunchEnvironment node;
  node.kind = Kind::process_a_node;
  node.nodes = 2;
  CHECK(message(node, cluster_of(2, 4), 2).find("2 devices on node 0") != std::string::npos);
}

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

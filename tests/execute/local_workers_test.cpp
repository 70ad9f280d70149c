#include "execute/local_workers.hpp"

#include <doctest/doctest.h>

#include "sim/network/families.hpp"

using namespace foretrain;

namespace {

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

#include "execute/distance.hpp"

#include <doctest/doctest.h>

#include "sim/input/job.hpp"
#include "sim/network/families.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"

using namespace foretrain;
using Words = std::vector<std::string>;

namespace {

Topology nvlink(int gpus) {
  NvlinkNode family;
  family.gpus_per_node = gpus;
  return make_topology(family);
}

// The tiny model calibrated at 8 and 16 in the precision of made_profile, all-reduces on 2, 4 and 8 GPUs of a
// node.
struct Example {
  Scenario scenario;
  Profile profile;
  Machine here;

  Example() {
    const Model model = test::tiny_cnn();
    profile = test::made_profile(model, {8, 16});
    scenario.model = std::make_shared<Model>(model);
    scenario.precision = profile.operators[0].precision;
    scenario.batch_per_worker = 8;
    scenario.cluster.topology = nvlink(2);
    here.identity = "here";
    profile.runs.resize(1);
    profile.runs[0].machine = here;
  }
  Words distance() {
    scenario.profile = std::make_shared<Profile>(profile);
    return distance_of(scenario, here);
  }
};

Topology two_nodes(double bits_per_second) {
  EthernetNodes family;
  family.nodes = 2;
  family.network.bandwidth = Rate(bits_per_second / 8);
  family.network.reported = family.network.bandwidth;
  return make_topology(family);
}

}  // namespace

TEST_CASE("what calibration has seen is in sample") {
  CHECK(Example().distance() == Words{});
}

TEST_CASE("each thing that calibration has not seen is named") {
  Example e;
  SUBCASE("batch") {
    e.scenario.batch_per_worker = 12;
    CHECK(e.distance() == Words{"batch"});
  }
  SUBCASE("another model, which implies another batch") {
    e.scenario.model = std::make_shared<Model>(test::tiny_mlp());
    CHECK(e.distance() == Words{"model"});
  }
  SUBCASE("another precision is as far as another model") {
    e.scenario.precision = e.scenario.precision == Precision::bf16 ? Precision::fp32 : Precision::bf16;
    CHECK(e.distance() == Words{"model"});
  }
  SUBCASE("number of GPUs") {
    e.scenario.cluster.topology = nvlink(3);
    CHECK(e.distance() == Words{"gpus"});
    e.scenario.strategy.kind = StrategyKind::independent;
    CHECK(e.distance() == Words{});
  }
  SUBCASE("a network between nodes") {
    e.scenario.cluster.topology = two_nodes(10e9);
    CHECK(e.distance() == Words{"network"});
    CollectiveEntry across = e.profile.collectives[0];
    across.ranks = 2;
    across.nodes = 2;
    across.line_rate = 10e9 / 8;
    e.profile.collectives.push_back(across);
    CHECK(e.distance() == Words{});
    e.scenario.cluster.topology = two_nodes(25e9);
    CHECK(e.distance() == Words{"network"});
  }
  SUBCASE("another machine, or one that is not known") {
    e.here.identity = "there";
    CHECK(e.distance() == Words{"machine"});
    e.here.identity = "";
    e.profile.runs[0].machine.identity = "";
    CHECK(e.distance() == Words{"machine"});
  }
  SUBCASE("CPU workers of other threads") {
    e.profile.device = "cpu";
    e.profile.runs[0].machine.multiprocessors = 2;
    CHECK(e.distance() == Words{"machine"});  // nothing is said: one thread
    HostDescription host;
    host.threads = 2;
    e.scenario.host = std::make_shared<HostDescription>(host);
    CHECK(e.distance() == Words{});
    host.threads = 1;
    e.scenario.host = std::make_shared<HostDescription>(host);
    CHECK(e.distance() == Words{"machine"});
    e.profile.device = "";  // threads that launch
    CHECK(e.distance() == Words{});
  }
  SUBCASE("all of them, in the order of the contract") {
    e.scenario.model = std::make_shared<Model>(test::tiny_mlp());
    e.scenario.cluster.topology = nvlink(3);
    e.profile.collectives.clear();
    e.here.identity = "there";
    CHECK(e.distance() == Words{"gpus", "network", "model", "machine"});
  }
}

#include "sim/network/stepwise.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/network/families.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/topologies.hpp"

using namespace foretrain;

namespace {

using test::all_ranks;
using test::star;

double stepwise(const Topology& topology, CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes,
                std::vector<int> ranks = {}, const StepwiseOptions& options = {}) {
  Routes routes(topology);
  if (ranks.empty()) ranks = all_ranks(topology);
  return replay_stepwise(topology, routes, kind, algorithm, rank_group(topology, ranks),
                         Bytes(static_cast<std::int64_t>(bytes)), options)
      .time.in_seconds();
}

double aggregate(const Topology& topology, CollectiveKind kind, CollectiveAlgorithm algorithm, double bytes) {
  const CollectiveModel model(topology, nullptr);
  return model
      .cost(kind, Bytes(static_cast<std::int64_t>(bytes)), Precision::fp32, all_ranks(topology),
            {algorithm, {}, false})
      .time.in_seconds();
}

}  // namespace

// Ring over n hosts of a star, rate B, two latencies a from host to host:
// all_reduce 2(n-1)/n S/B + 2(n-1) 2a; all_gather and reduce_scatter half of it.
TEST_CASE("stepwise rings keep to the closed forms") {
  for (int n : {2, 3, 5, 16}) {
    const double size = 8e6, rate = 1.25e9, hop = 10e-6;
    const double all_reduce = 2.0 * (n - 1) / n * size / rate + 2 * (n - 1) * hop;
    const Topology topology = star(n, 10, 5);
    CHECK(stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::ring, size) ==
          test::approx(all_reduce).epsilon(1e-3));
    CHECK(stepwise(topology, CollectiveKind::all_gather, CollectiveAlgorithm::ring, size) ==
          test::approx(all_reduce / 2).epsilon(1e-3));
    CHECK(stepwise(topology, CollectiveKind::reduce_scatter, CollectiveAlgorithm::ring, size) ==
          test::approx(all_reduce / 2).epsilon(1e-3));
  }
}

TEST_CASE("stepwise: 20 MB at 1 Gbit/s take 160 ms, 1,250 MiB at 10 Gbit/s not under 1.0486 s") {
  CHECK(stepwise(star(2, 1, 0), CollectiveKind::all_reduce, CollectiveAlgorithm::ring, 20e6) ==
        test::approx(0.160).epsilon(1e-3));
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree}) {
    const double time = stepwise(star(2, 10, 0), CollectiveKind::all_reduce, algorithm, 1250.0 * (1 << 20));
    CHECK(time >= 1.0486 * (1 - 1e-4));
    CHECK(time < 1.0486 * 1.05);
  }
}

TEST_CASE("the closed forms of plain flows agree with the stepwise replay") {
  for (int n : {2, 4, 7, 12}) {
    CAPTURE(n);
    for (int k = 0; k < 7; ++k) {
      const auto kind = static_cast<CollectiveKind>(k);
      const CollectiveAlgorithm algorithm = default_algorithm(kind);
      CAPTURE(std::string(name_of(kind)));
      // In a chain every piece waits for the latency of the one before, which NCCL hides: none there.
      const bool is_chain = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
      const Topology topology = star(n, 25, is_chain ? 0 : 3);
      const double fine = stepwise(topology, kind, algorithm, 50e6, {}, {1, 2000});
      CHECK(aggregate(topology, kind, algorithm, 50e6) == test::approx(fine).epsilon(0.01));
    }
    const Topology no_latency = star(n, 25, 0);
    const double tree =
        stepwise(no_latency, CollectiveKind::all_reduce, CollectiveAlgorithm::tree, 50e6, {}, {1, 500});
    CHECK(aggregate(no_latency, CollectiveKind::all_reduce, CollectiveAlgorithm::tree, 50e6) ==
          test::approx(tree).epsilon(0.05));
  }
}

TEST_CASE("nodes of several GPUs: the NIC sets the pace, in closed form and step by step") {
  EthernetNodes family;
  family.nodes = 4;
  family.gpus_per_node = 4;
  family.network = {Rate::bits_per_second(25e9), Time::microseconds(5), Transport::tcp, {}};
  const Topology topology = make_topology(family);
  const double ring = stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::ring, 100e6);
  CHECK(aggregate(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::ring, 100e6) ==
        test::approx(ring).epsilon(0.01));
  const double tree =
      stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::tree, 100e6, {}, {1, 300});
  CHECK(aggregate(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::tree, 100e6) ==
        test::approx(tree).epsilon(0.05));
}

// Halving and doubling over n = 2^k hosts sends what the ring does, 2(n-1)/n S, in 2 log2(n) steps; in the
// network each rank sends S once and has it once.
TEST_CASE("algorithms by rounds keep to their closed forms") {
  const double size = 8e6, rate = 1.25e9, hop = 10e-6;
  for (int n : {2, 4, 16}) {
    const Topology topology = star(n, 10, 5);
    const double steps = std::log2(n);
    CHECK(stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::halving_doubling, size) ==
          test::approx(2.0 * (n - 1) / n * size / rate + 2 * steps * hop).epsilon(1e-3));
    CHECK(stepwise(topology, CollectiveKind::all_gather, CollectiveAlgorithm::halving_doubling, size) ==
          test::approx(1.0 * (n - 1) / n * size / rate + steps * hop).epsilon(1e-3));
    // In pieces one goes up while the one before comes down, and sets out before that one has arrived:
    // latency counts once a link.
    const int pieces = 32;
    CHECK(stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::in_network, size, {},
                   {1, pieces}) == test::approx(size / rate * (1 + 1.0 / pieces) + hop).epsilon(1e-3));
    // A server on each host: S/n from and to each of the n - 1 others, both ways.
    CHECK(stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::parameter_server, size) ==
          test::approx(2.0 * (n - 1) / n * size / rate + 2 * hop).epsilon(1e-3));
  }
}

// Gloo's bcube sends 2(n-1)/n S like the ring, in 2 steps for each factor of two of n and 2 for what is left:
// six hosts make pairs, then a group of three.
TEST_CASE("Gloo's bcube keeps to its closed form") {
  const double size = 6e6, rate = 1.25e9, hop = 10e-6;
  const std::pair<int, double> steps_of[] = {{2, 2}, {3, 2}, {4, 4}, {6, 4}, {16, 8}};
  for (const auto& each : steps_of) {
    const auto& n = each.first;
    const auto& steps = each.second;
    CAPTURE(n);
    CHECK(stepwise(star(n, 10, 5), CollectiveKind::all_reduce, CollectiveAlgorithm::bcube, size) ==
          test::approx(2.0 * (n - 1) / n * size / rate + steps * hop).epsilon(1e-3));
  }
}

TEST_CASE("every algorithm by rounds: closed form against the replay, on nodes and trees") {
  EthernetNodes nodes;
  nodes.nodes = 6;
  nodes.gpus_per_node = 4;
  nodes.nics = 2;
  nodes.network = {Rate::bits_per_second(100e9), Time::microseconds(2), Transport::rdma, {}};
  const Topology all[] = {star(6, 25, 0), star(8, 25, 3), make_topology(nodes),
                          make_topology(FabricNodes{nodes, RailShape{}}),
                          make_topology(FabricNodes{nodes, LeafSpineShape{4, 2, 2}})};
  for (const Topology& topology : all) {
    CAPTURE(topology.workers.size());
    for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::halving_doubling, CollectiveAlgorithm::bcube,
                                          CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::in_network,
                                          CollectiveAlgorithm::parameter_server}) {
      CAPTURE(std::string(name_of(algorithm)));
      const bool is_in_network = algorithm == CollectiveAlgorithm::in_network;
      // In a stream every piece waits for the latency of the one before: few of them where there is some.
      const double replayed =
          stepwise(topology, CollectiveKind::all_reduce, algorithm, 50e6, {}, {1, is_in_network ? 20 : 1});
      // Where nodes are not in step, as with halving over 6 hosts or 24 ranks, rounds overlap in the replay.
      const double closed = aggregate(topology, CollectiveKind::all_reduce, algorithm, 50e6);
      const bool is_halving = algorithm == CollectiveAlgorithm::halving_doubling;
      CHECK(closed >= replayed * (is_halving ? 0.85 : is_in_network ? 0.75 : 0.98));
      CHECK(closed <= replayed * 1.25);
    }
  }
}

TEST_CASE("hierarchical needs equal nodes, in-network a switch") {
  EthernetNodes nodes;
  nodes.nodes = 2;
  nodes.gpus_per_node = 4;
  nodes.network = {Rate::bits_per_second(100e9), Time::microseconds(2), Transport::rdma, {}};
  const Topology topology = make_topology(nodes);
  CHECK_THROWS_WITH_AS(
      stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::hierarchical, 1e6, {0, 1, 2, 3, 4}),
      doctest::Contains("equal numbers"), Error);
  const Topology memory = make_topology(OneNode{2});
  CHECK_THROWS_WITH_AS(stepwise(memory, CollectiveKind::all_reduce, CollectiveAlgorithm::in_network, 1e6),
                       doctest::Contains("no switch"), Error);
}

TEST_CASE("a slow host slows the ring to its rate") {
  const Rate fast = Rate::bits_per_second(10e9), slow = Rate::bits_per_second(1e9);
  const Topology topology = make_topology(Star{8, fast, Time(), Star::Slow{3, slow}});
  const double expected = 2.0 * 7 / 8 * 10e6 / slow.bytes_per_second();
  CHECK(stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::ring, 10e6) ==
        test::approx(expected).epsilon(0.15));
  CHECK(aggregate(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::ring, 10e6) ==
        test::approx(expected).epsilon(1e-3));
}

TEST_CASE("laws: permuted ranks, an idle link, times k, more bandwidth") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    RandomStream random(seed, {11});
    const int n = 2 + static_cast<int>(random.next() % 9);
    const double size = 1e6 * (1 + 20 * random.uniform()), gigabits = 1 + 99 * random.uniform();
    const Topology topology = star(n, gigabits, 0);
    const auto kind = static_cast<CollectiveKind>(random.next() % 7);
    const CollectiveAlgorithm algorithm = kind == CollectiveKind::all_reduce && seed % 2 == 0
                                              ? CollectiveAlgorithm::tree
                                              : default_algorithm(kind);
    CAPTURE(seed);
    CAPTURE(std::string(name_of(kind)));
    const double once = stepwise(topology, kind, algorithm, size);
    std::vector<int> permuted = all_ranks(topology);
    for (std::size_t i = permuted.size(); i > 1; --i) std::swap(permuted[i - 1], permuted[random.next() % i]);
    CHECK(stepwise(topology, kind, algorithm, size, permuted) == test::approx(once).epsilon(1e-9));
    // A host that takes no part, and then its link gone.
    std::vector<int> some(static_cast<std::size_t>(n));
    std::iota(some.begin(), some.end(), 0);
    const Topology larger = star(n + 1, gigabits, 0);
    CHECK(stepwise(larger, kind, algorithm, size, some) == test::approx(once).epsilon(1e-9));
    CHECK(stepwise(topology, kind, algorithm, 4 * size) == test::approx(4 * once).epsilon(1e-6));
    CHECK(stepwise(star(n, gigabits / 4, 0), kind, algorithm, size) == test::approx(4 * once).epsilon(1e-6));
    CHECK(stepwise(star(n, gigabits * 1.5, 0), kind, algorithm, size) <= once * (1 + 1e-9));
  }
}

TEST_CASE("bytes on the links step by step are those of the closed form") {
  EthernetNodes family;
  family.nodes = 3;
  family.gpus_per_node = 2;
  family.network = {Rate::bits_per_second(25e9), Time::microseconds(5), Transport::tcp, {}};
  const Topology topology = make_topology(family);
  Routes routes(topology);
  const CollectiveModel model(topology, nullptr);
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree}) {
    const auto ranks = all_ranks(topology);
    const StepwiseResult result = replay_stepwise(topology, routes, CollectiveKind::all_reduce, algorithm,
                                                  rank_group(topology, ranks), Bytes(6'000'000));
    double busiest = 0;
    for (std::size_t l = 0; l < result.bytes_by_link.size(); ++l) {
      if (class_of(topology, topology.links[l]) == "nic")
        busiest = std::max(busiest, result.bytes_by_link[l]);
    }
    const CollectiveCost cost = model.cost(CollectiveKind::all_reduce, Bytes(6'000'000), Precision::fp32,
                                           ranks, {algorithm, NcclProtocol::simple, true});
    for (const WireUse& use : cost.wire) {
      if (use.link_class == "nic") CHECK(use.bytes == test::approx(busiest));
    }
  }
}

TEST_CASE("a replay that would never end is refused") {
  const Topology topology = star(20'000, 10, 5);
  CHECK_THROWS_WITH_AS(stepwise(topology, CollectiveKind::all_reduce, CollectiveAlgorithm::ring, 1e6),
                       doctest::Contains("leave --stepwise"), Error);
}

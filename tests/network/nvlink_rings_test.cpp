#include "sim/network/nvlink_rings.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/network/collective_cost.hpp"
#include "sim/network/collectives.hpp"
#include "sim/network/families.hpp"
#include "sim/network/stepwise.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

LinkRates joined(std::size_t gpus, const std::vector<std::vector<int>>& links) {  // {a, b, rate}
  LinkRates rates(gpus, std::vector<double>(gpus));
  for (const std::vector<int>& link : links) {
    const auto a = static_cast<std::size_t>(link[0]), b = static_cast<std::size_t>(link[1]);
    rates[a][b] = rates[b][a] = link[2];
  }
  return rates;
}

// How often each link is used; every ring passes each GPU once.
LinkRates uses(const std::vector<std::vector<int>>& rings, std::size_t gpus) {
  LinkRates used(gpus, std::vector<double>(gpus));
  for (const std::vector<int>& ring : rings) {
    std::vector<int> sorted = ring, all(gpus);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    CHECK(sorted == all);
    for (std::size_t i = 0; i < gpus; ++i)
      ++used[static_cast<std::size_t>(ring[i])][static_cast<std::size_t>(ring[(i + 1) % gpus])];
  }
  return used;
}

const std::vector<std::vector<int>> mesh_of_dgx_1 = {
    {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
    {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};

EthernetNodes dgx_1(int nodes) {
  EthernetNodes family;
  family.nodes = nodes;
  family.gpus_per_node = 8;
  family.nics = 4;
  family.inside = nvlink_of_volta();
  family.inside.pcie_switches = 4;
  family.inside.host_bridges = 2;
  family.network = {Rate::bits_per_second(100e9), Time::microseconds(1), Transport::rdma, {}};
  return family;
}

}  // namespace

TEST_CASE("six rings take each link of a DGX-1's mesh for its width, both ways") {
  const LinkRates rates = joined(8, mesh_of_dgx_1);
  const auto rings = nvlink_rings(rates);
  CHECK(rings.size() == 6);
  CHECK(uses(rings, 8) == rates);
}

TEST_CASE("rings halve the links where whole ones leave some free") {
  // Four GPUs joined each to each: three whole rings cannot be (Tillson 1980), six of half a link can.
  const LinkRates rates = joined(4, {{0, 1, 4}, {0, 2, 4}, {0, 3, 4}, {1, 2, 4}, {1, 3, 4}, {2, 3, 4}});
  const auto rings = nvlink_rings(rates);
  CHECK(rings.size() == 6);
  const LinkRates used = uses(rings, 4);
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) CHECK(used[a][b] <= (a == b ? 0 : 2));
  }
}

TEST_CASE("where links close no ring it has the fewest other hops, and rank order where that has no more") {
  CHECK(nvlink_rings(joined(4, {{0, 2, 1}, {1, 3, 1}})) == std::vector<std::vector<int>>{{0, 2, 1, 3}});
  CHECK(nvlink_rings(joined(4, {{0, 1, 1}, {2, 3, 1}})).empty());
  CHECK(nvlink_rings(joined(5, {})).empty());
  CHECK(nvlink_rings(joined(2, {{0, 1, 3}})).empty());
}

TEST_CASE("sixteen GPUs in a torus of links are searched in milliseconds") {
  std::vector<std::vector<int>> links;
  for (int gpu = 0; gpu < 16; ++gpu) {
    links.push_back({gpu, gpu / 4 * 4 + (gpu + 1) % 4, 1});
    links.push_back({gpu, (gpu + 4) % 16, 1});
  }
  const LinkRates rates = joined(16, links);
  const auto rings = nvlink_rings(rates);
  CHECK(rings.size() >= 2);
  const LinkRates used = uses(rings, 16);
  for (std::size_t a = 0; a < 16; ++a) {
    for (std::size_t b = 0; b < 16; ++b) CHECK(used[a][b] <= rates[a][b]);
  }
}

// 6 links of 20 GB/s a GPU: S (n-1)/n 2 / 120 GB/s.
TEST_CASE("the rings of a DGX-1 carry what all its NVLinks do, step by step too") {
  const Topology topology = make_topology(dgx_1(1));
  const std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const RankGroup group = rank_group(topology, ranks);
  CHECK(rings_of(topology, group) == 6);
  const Bytes bytes(1 << 30);
  const double ideal = 1.75 * static_cast<double>(bytes.count()) / 120e9;
  Routes routes(topology);
  StepwiseOptions options;
  options.rings = 6;
  const auto replayed = replay_stepwise(topology, routes, CollectiveKind::all_reduce,
                                        CollectiveAlgorithm::ring, group, bytes, options);
  CHECK(replayed.time.in_seconds() == approx(ideal).epsilon(1e-6));
  const CollectiveModel model(topology, nullptr);
  CollectiveChoice choice;
  choice.algorithm = CollectiveAlgorithm::ring;
  const auto cost = model.cost(CollectiveKind::all_reduce, bytes, Precision::fp32, ranks, choice);
  CHECK(cost.time.in_seconds() == approx(ideal).epsilon(0.02));
}

TEST_CASE("rings over several DGX-1 come in and go out by all NICs alike, over NVLink alone within") {
  const Topology topology = make_topology(dgx_1(2));
  std::vector<int> ranks(16);
  std::iota(ranks.begin(), ranks.end(), 0);
  const RankGroup group = rank_group(topology, ranks);
  const LinkRates mesh = joined(8, mesh_of_dgx_1);
  std::vector<int> in(4), out(4);
  for (const std::vector<int>& order : orders_in_node(group, 1, 4)) {
    ++in[static_cast<std::size_t>(order.front() - 8) / 2];
    ++out[static_cast<std::size_t>(order.back() - 8) / 2];
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      CHECK(mesh[static_cast<std::size_t>(order[i] - 8)][static_cast<std::size_t>(order[i + 1] - 8)] > 0);
  }
  CHECK(in == std::vector<int>{1, 1, 1, 1});
  CHECK(out == in);
  Routes routes(topology);
  const Bytes bytes(1 << 30);
  const auto loads = link_loads(topology, routes, group,
                                transfers(CollectiveKind::all_reduce, CollectiveAlgorithm::ring, group, 4));
  CHECK(loads.network_seconds_per_byte() == approx(1.875 / 4 / 12e9));
  CHECK(loads.inside_seconds_per_byte() <= loads.network_seconds_per_byte());
  for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree}) {
    CollectiveChoice choice;
    choice.algorithm = algorithm;
    choice.library = false;
    StepwiseOptions options;
    options.rings = 4;
    options.pieces = 64;
    const auto replayed =
        replay_stepwise(topology, routes, CollectiveKind::all_reduce, algorithm, group, bytes, options);
    const auto cost = CollectiveModel(topology, nullptr)
                          .cost(CollectiveKind::all_reduce, bytes, Precision::fp32, ranks, choice);
    CHECK(replayed.time.in_seconds() == approx(cost.time.in_seconds()).epsilon(0.2));
  }
}

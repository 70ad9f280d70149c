#include "calibrate/collective_suite.hpp"

#include <doctest/doctest.h>

#include <set>

#include "tests/support/approx.hpp"
#include "tests/support/fake_backend.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;
using foretrain::test::approx;

TEST_CASE("subsets of one node: all, two, and the others") {
  std::vector<int> counts;
  for (const RankSubset& subset : local_subsets(4, "nvlink")) {
    counts.push_back(subset.placement.ranks);
    CHECK(static_cast<int>(subset.members.size()) == subset.placement.ranks);
    CHECK(subset.members.front() == 0);
  }
  CHECK(counts == std::vector<int>{4, 2, 3});
  CHECK(local_subsets(2, "nvlink").size() == 1);
  CHECK(local_subsets(1, "nvlink").empty());
}

TEST_CASE("subsets of several nodes: nodes x GPUs a node, in powers of two") {
  // Three nodes of four GPUs, ranks dealt out in turn.
  std::vector<int> nodes;
  for (int rank = 0; rank < 12; ++rank) nodes.push_back(rank % 3);
  const auto subsets = node_subsets(nodes, "ethernet", 1.25e9);
  std::set<std::pair<int, int>> placements;
  for (const RankSubset& subset : subsets) {
    placements.insert({subset.placement.nodes, subset.placement.ranks / subset.placement.nodes});
    CHECK(subset.members.front() == 0);
    std::set<int> used;
    for (const int member : subset.members) used.insert(nodes[static_cast<std::size_t>(member)]);
    CHECK(static_cast<int>(used.size()) == subset.placement.nodes);
    CHECK(subset.placement.line_rate == 1.25e9);
  }
  CHECK(placements == std::set<std::pair<int, int>>{{3, 4}, {3, 2}, {3, 1}, {2, 4}, {2, 2}, {2, 1}});
  CHECK(subsets.front().placement.ranks == 12);
  CHECK(node_subsets({0, 0, 0}, "ethernet", 0).empty());
}

TEST_CASE("ranks outside a subset decide along and do not block it") {
  test::FakeClock clock;
  test::FakeScript script;
  script.devices = 3;
  script.collective = [](CollectiveKind, std::int64_t bytes, int ranks, const std::string& algorithm,
                         const std::string&) {
    return test::FakeChoice{(algorithm.empty() ? "RING" : algorithm) + " proto SIMPLE",
                            10e-6 * ranks + static_cast<double>(bytes) / 100e9};
  };
  test::FakeBackend backend(script, clock);
  CollectiveOptions options;
  options.most_bytes = 1 << 12;
  options.seconds = 100;
  std::vector<CollectiveEntry> entries;
  std::vector<std::string> warnings;
  const SuiteHooks hooks{{},
                         [&](const std::string& text) { warnings.push_back(text); },
                         [&](const std::vector<CollectiveEntry>& more) {
                           entries.insert(entries.end(), more.begin(), more.end());
                         }};
  run_ranks(3, clock, [&](RankGroup& group) {
    const auto worker = backend.make_worker(group.rank());
    Session session{*worker, clock, nullptr, &group};
    measure_collectives(session, group, backend, local_subsets(3, "nvlink"), options, group.rank() == 0,
                        hooks);
  });
  CHECK(warnings.empty());
  std::set<int> ranks;
  for (const CollectiveEntry& entry : entries) {
    ranks.insert(entry.ranks);
    const double expected = 10e-6 * entry.ranks + static_cast<double>(entry.bytes) / 100e9;
    CHECK(entry.time.median == approx(expected).epsilon(0.06));
    if (entry.algorithm != "auto") CHECK(entry.chosen_algorithm == entry.algorithm);
  }
  CHECK(ranks == std::set<int>{2, 3});
  // A communicator a setting: auto and six forced ones.
  CHECK(backend.communicators == 2 * 7);
}

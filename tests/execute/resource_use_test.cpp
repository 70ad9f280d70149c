#include "execute/resource_use.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

MonitorSeries series(const char* what, int node, std::vector<double> value) {
  MonitorSeries out;
  out.what = what;
  out.node = node;
  out.value = std::move(value);
  for (std::size_t i = 0; i < out.value.size(); ++i) out.time.push_back(static_cast<double>(i) - 1);
  return out;
}

}  // namespace

// Sampled at -1, 0, 1, 2, 3 seconds: the first is of the warm-up.
TEST_CASE("a run's use of its nodes is that from the first counted step on") {
  RunRecord record;
  record.monitor = {series("cpu", 0, {9, 1, 2, 1, 2}), series("resident", 0, {9e9, 1e6, 2e6, 4e6, 1e6}),
                    series("network_sent", 0, {9, 5, 1e6, 2e6, 3e6}), series("cpu", 1, {1, 1, 1, 1, 1}),
                    series("network_sent", 2, {1, 1, 1, 1, 1})};
  const std::vector<ResourceUse> use = resource_use(record);
  REQUIRE(use.size() == 2);  // of node 2 nothing but the network
  CHECK(use[0].cores == 1.5);
  CHECK(use[0].resident_mean == 2e6);
  CHECK(use[0].resident_peak == 4e6);
  CHECK(use[0].sent == 6e6);  // rates over the second before each sample
  CHECK(use[1].node == 1);
  CHECK(use[1].cores == 1);
  CHECK(use[1].resident_peak == 0);
  CHECK(resource_use(RunRecord{}).empty());
}

TEST_CASE("a checkpoint costs the memory by which its samples exceed those before the first one") {
  RunRecord record;
  record.monitor = {series("resident", 0, {9e9, 1e6, 3e6, 2e6, 7e6, 4e6, 8e6})};
  CHECK_FALSE(checkpoint_memory(record));
  // Samples begin with the first counted step, ten seconds after the run's start.
  record.events = {{"startup", 0, 10, 0, 8, 1, 0, -1, 0}, {"checkpoint", 12.5, 13.5, 3, 8, 1, 100, -1, 0}};
  REQUIRE(checkpoint_memory(record));
  CHECK(*checkpoint_memory(record) == 5e6);  // 7 MB less the median of 1, 3 and 2
  record.events.push_back({"checkpoint write", 14.5, 15.5, 3, 8, 1, 100, -1, 0});
  CHECK(*checkpoint_memory(record) == 6e6);
  record.events = {record.events[0], {"checkpoint", 12.2, 12.8, 3, 8, 1, 100, -1, 0}};
  CHECK_FALSE(checkpoint_memory(record));  // between two samples
}

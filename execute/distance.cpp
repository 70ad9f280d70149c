#include "execute/distance.hpp"

#include <algorithm>
#include <cmath>

#include "sim/input/job.hpp"
#include "sim/training/crowding.hpp"

namespace foretrain {
namespace {

constexpr double same_rate = 0.02;  // of one line, as two programs state it

bool same_line(double a, double b) {
  return std::abs(a - b) <= same_rate * std::max(a, b);
}

void add_collectives(const Scenario& scenario, const std::vector<CollectiveEntry>& measured,
                     std::vector<std::string>& far) {
  const Topology& topology = scenario.cluster.topology;
  const auto workers = static_cast<int>(topology.workers.size());
  if (workers < 2 || scenario.strategy.kind == StrategyKind::independent) return;
  const double rate = topology.network.bandwidth.bytes_per_second();
  bool ranks_seen = false, network_seen = false;
  for (const CollectiveEntry& entry : measured) {
    if (entry.ranks < 2) continue;
    ranks_seen |= entry.ranks == workers;
    network_seen |=
        topology.nodes > 1 ? entry.nodes > 1 && same_line(entry.line_rate, rate) : entry.nodes == 1;
  }
  if (!ranks_seen) far.emplace_back("gpus");
  if (!network_seen) far.emplace_back("network");
}

bool same_machine(const Profile& profile, const Machine& here) {
  return std::all_of(profile.runs.begin(), profile.runs.end(), [&](const CalibrationRun& run) {
    return !here.identity.empty() && run.machine.identity == here.identity;
  });
}

// A worker of other threads is another machine: calibration measured none of its kernels.
bool same_threads(const Scenario& scenario, const Profile& profile) {
  const std::vector<int> measured = threads_of(profile);
  const int asked = scenario.host ? scenario.host->threads : 1;
  return measured.empty() || std::find(measured.begin(), measured.end(), asked) != measured.end();
}

}  // namespace

std::vector<std::string> distance_of(const Scenario& scenario, const Machine& here) {
  std::vector<std::string> far;
  const std::int64_t batch = scenario.batch_per_worker;
  if (scenario.step_times) {
    const auto& points = scenario.step_times->points;
    if (std::none_of(points.begin(), points.end(), [&](const auto& point) { return point.batch == batch; })) {
      far.emplace_back("batch");
    }
    add_collectives(scenario, {}, far);
    far.emplace_back("machine");
    return far;
  }
  const Profile& profile = *scenario.profile;
  bool model_seen = false, batch_seen = false;
  for (const OperatorEntry& entry : profile.operators) {
    if (entry.context != scenario.model->name || entry.precision != scenario.precision) continue;
    model_seen = true;
    batch_seen |= entry.batch == batch;
  }
  if (!model_seen) {
    far.emplace_back("model");
  } else if (!batch_seen) {
    far.emplace_back("batch");
  }
  add_collectives(scenario, profile.collectives, far);
  // In the order of the contract: model after network.
  if (!model_seen) std::rotate(far.begin(), far.begin() + 1, far.end());
  if (!same_machine(profile, here) || !same_threads(scenario, profile)) far.emplace_back("machine");
  return far;
}

}  // namespace foretrain

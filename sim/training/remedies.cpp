#include "sim/training/remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/parse_units.hpp"
#include "sim/training/step_simulation.hpp"

namespace foretrain {
namespace {

bool has_network(const Scenario& scenario) {
  return std::any_of(scenario.cluster.topology.links.begin(), scenario.cluster.topology.links.end(),
                     [](const Link& link) { return link.kind == LinkKind::network; });
}

double exposed_share(const Scenario& scenario) {
  const StepSimulation simulation(scenario);
  const StepOutcome outcome = simulation.run(simulation.at_quantile(0.5));
  return outcome.use.breakdown.exposed_communication / outcome.seconds;
}

// The least factor on the network's rate for which `enough` holds, as a rate; 0 where none in the range does.
template <typename Predicate>
double least_bandwidth(const Scenario& scenario, Predicate enough) {
  const double present = scenario.cluster.topology.network.bandwidth.bytes_per_second();
  double low = std::log(1e8 / 8 / present), high = std::log(1e13 / 8 / present);
  if (!enough(with_network(scenario, std::exp(high)))) return 0;
  if (enough(with_network(scenario, std::exp(low)))) return 0;
  while (high - low > 0.01) {
    const double middle = (low + high) / 2;
    (enough(with_network(scenario, std::exp(middle))) ? high : low) = middle;
  }
  return present * std::exp(high);
}

}  // namespace

Scenario with_network(const Scenario& scenario, double factor) {
  Scenario out = scenario;
  Topology& topology = out.cluster.topology;
  for (Link& link : topology.links) {
    if (link.kind == LinkKind::network) link.rate = link.rate * factor;
  }
  topology.network.bandwidth = topology.network.bandwidth * factor;
  topology.network.reported = topology.network.reported * factor;
  return out;
}

Scenario with_batch(const Scenario& scenario, std::int64_t batch_per_worker) {
  Scenario out = scenario;
  out.batch_per_worker = batch_per_worker;
  out.batch_global = batch_per_worker * static_cast<std::int64_t>(scenario.cluster.topology.workers.size());
  return out;
}

Scenario with_one_worker(const Scenario& scenario) {
  Scenario out = scenario;
  out.cluster.topology.workers.resize(1);
  out.cluster.topology.nodes = 1;
  out.strategy.kind = StrategyKind::independent;
  out.batch_global = out.batch_per_worker;
  return out;
}

Scenario with_first_node(const Scenario& scenario) {
  Scenario out = scenario;
  Topology& topology = out.cluster.topology;
  const int node = topology.vertices[static_cast<std::size_t>(topology.workers.front())].node;
  std::erase_if(topology.workers,
                [&](int worker) { return topology.vertices[static_cast<std::size_t>(worker)].node != node; });
  topology.nodes = 1;
  out.batch_global = out.batch_per_worker * static_cast<std::int64_t>(topology.workers.size());
  return out;
}

double median_step(const Scenario& scenario) {
  const StepSimulation simulation(scenario);
  return simulation.seconds(simulation.at_quantile(0.5));
}

std::vector<Remedy> remedies_of(const Scenario& scenario, double step, std::size_t most) {
  std::vector<Remedy> out;
  const double samples = static_cast<double>(scenario.batch_global);
  auto consider = [&](std::string change, const Scenario& changed, std::string cost) {
    const double seconds = median_step(changed);
    const double speedup = static_cast<double>(changed.batch_global) / seconds / (samples / step);
    if (speedup >= 1.01) out.push_back({std::move(change), seconds, speedup, std::move(cost)});
  };
  const bool several = scenario.cluster.topology.workers.size() > 1;
  const bool communicates = several && scenario.strategy.kind != StrategyKind::independent;
  if (communicates && has_network(scenario)) {
    const Rate twice = scenario.cluster.topology.network.bandwidth * 2;
    consider("twice the bandwidth (" + format_bit_rate(twice) + ")", with_network(scenario, 2),
             "network hardware");
  }
  if (communicates && element_bytes(scenario.strategy.gradients) == 4) {
    Scenario half = scenario;
    half.strategy.gradients = Precision::bf16;
    consider("gradients in bf16", half, "gradients rounded to 8 bits of mantissa before they are summed");
  }
  if (scenario.profile) {
    std::int64_t next = 0;
    for (const OperatorEntry& entry : scenario.profile->operators) {
      if (scenario.model && entry.context == scenario.model->name && entry.precision == scenario.precision &&
          entry.batch > scenario.batch_per_worker && (next == 0 || entry.batch < next)) {
        next = entry.batch;
      }
    }
    if (next > 0) {
      consider(fmt::format("batch {} per worker", next), with_batch(scenario, next),
               "fewer updates an epoch; accuracy not predicted");
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Remedy& a, const Remedy& b) { return a.speedup > b.speedup; });
  if (out.size() > most) out.resize(most);
  return out;
}

std::optional<BreakEven> break_even_of(const Scenario& scenario) {
  if (!has_network(scenario) || scenario.cluster.topology.nodes < 2 ||
      scenario.strategy.kind == StrategyKind::independent) {
    return std::nullopt;
  }
  BreakEven out;
  out.bandwidth_hidden = least_bandwidth(scenario, [](const Scenario& s) { return exposed_share(s) < 0.01; });
  const Scenario one = with_first_node(scenario);
  const double alone = static_cast<double>(one.batch_global) / median_step(one);
  out.bandwidth_next_node = least_bandwidth(scenario, [&](const Scenario& s) {
    return static_cast<double>(s.batch_global) / median_step(s) > alone;
  });
  return out;
}

}  // namespace foretrain

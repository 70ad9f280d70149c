#include "sim/training/remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/parse_units.hpp"
#include "sim/network/collective_cost.hpp"
#include "sim/training/execution_rule.hpp"

namespace foretrain {
namespace {

bool has_network(const Scenario& scenario) {
  return std::any_of(scenario.cluster.topology.links.begin(), scenario.cluster.topology.links.end(),
                     [](const Link& link) { return link.kind == LinkKind::network; });
}

// A step launched as one captured graph: the host takes one launch for it. 1 where it takes no time already.
double host_of_graph(const Scenario& scenario, const StepSimulation& simulation) {
  Time host;
  for (const Operation& operation : simulation.graph().programs.front().operations) host += operation.host;
  if (!(host > Time())) return 1;
  constexpr double assumed_launch = 5e-6;
  const bool is_measured = scenario.profile && !scenario.profile->launches.empty();
  const double launch = is_measured ? scenario.profile->launches.back().launch.median : assumed_launch;
  return std::min(1.0, launch / host.in_seconds());
}

StepFactors median_on(const StepSimulation& simulation, double network) {
  StepFactors factors = simulation.at_quantile(0.5);
  factors.wires.network = network;
  return factors;
}

// Samples per second of the median step.
double median_rate(const StepSimulation& simulation, double network = 1) {
  return static_cast<double>(simulation.batch_global()) / simulation.seconds(median_on(simulation, network));
}

// The least factor on the network's rate for which `enough` holds, as a rate; 0 where none in the range does.
template <typename Predicate>
double least_bandwidth(const Scenario& scenario, Predicate enough) {
  const double present = scenario.cluster.topology.network.bandwidth.bytes_per_second();
  double low = std::log(1e8 / 8 / present), high = std::log(1e13 / 8 / present);
  if (!enough(std::exp(high))) return 0;
  if (enough(std::exp(low))) return 0;
  while (high - low > 0.01) {
    const double middle = (low + high) / 2;
    (enough(std::exp(middle)) ? high : low) = middle;
  }
  return present * std::exp(high);
}

// Workers of the first node, which stand first.
int first_node_workers(const Topology& topology) {
  auto node = [&](int worker) { return topology.vertices[static_cast<std::size_t>(worker)].node; };
  int count = 0;
  for (const int worker : topology.workers) {
    if (node(worker) != node(topology.workers.front())) break;
    ++count;
  }
  return count;
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

std::vector<Remedy> remedies_of(const Scenario& scenario, const StepSimulation& simulation, double step,
                                std::size_t most) {
  std::vector<Remedy> out;
  const double rate = static_cast<double>(scenario.batch_global) / step;
  auto consider = [&](std::string change, const StepSimulation& changed, double network, std::string cost,
                      double host = 1) {
    StepFactors factors = median_on(changed, network);
    factors.host *= host;
    const double seconds = changed.seconds(factors);
    const double speedup = static_cast<double>(changed.batch_global()) / seconds / rate;
    if (speedup >= 1.01) out.push_back({std::move(change), seconds, speedup, std::move(cost)});
  };
  auto changed = [&](const StepChange& change) { return simulation.changed(scenario, change); };
  const bool communicates = simulation.workers() > 1 && scenario.strategy.kind != StrategyKind::independent;
  if (communicates && has_network(scenario)) {
    const Rate twice = scenario.cluster.topology.network.bandwidth * 2;
    consider("twice the bandwidth (" + format_bit_rate(twice) + ")", simulation, 2, "network hardware");
  }
  if (communicates && element_bytes(scenario.strategy.gradients) == 4 &&
      !workers_are_cpus(scenario.cluster.topology, scenario.profile.get())) {
    consider("gradients in bf16", changed({.gradients = Precision::bf16}), 1,
             "gradients rounded to 8 bits of mantissa before they are summed");
  }
  if (!workers_are_cpus(scenario.cluster.topology, scenario.profile.get()) &&
      !scenario.execution.cuda_graph) {
    const char *const change = "the step as a CUDA graph", *const cost =
                                                               "shapes and addresses that stay the same";
    if (has_captured_steps(scenario)) {
      Scenario graph = scenario;
      graph.execution.cuda_graph = true;
      const ExecutedScenario executed(graph, simulation.workers());
      consider(change, StepSimulation(*executed), 1, cost);
    } else if (const double host = host_of_graph(scenario, simulation); host < 1) {
      consider(change, simulation, 1, cost, host);
    }
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
      consider(fmt::format("batch {} per worker", next), changed({.batch_per_worker = next}), 1,
               "fewer updates an epoch; accuracy not predicted");
    }
  }
  if (communicates) {
    const int twice = 2 * scenario.strategy.accumulation;
    consider(fmt::format("{} micro-batches a step", twice),
             changed({.batch_per_worker = 2 * scenario.batch_per_worker, .accumulation = twice}), 1,
             "half as many updates an epoch; accuracy not predicted");
  }
  if (communicates && scenario.cluster.topology.nodes > 1) {
    const int workers = first_node_workers(scenario.cluster.topology);
    consider(fmt::format("one node ({} worker{})", workers, workers == 1 ? "" : "s"),
             changed({.workers = workers}), 1,
             fmt::format(
                 "none: fewer {}, and a smaller global batch",
                 workers_are_cpus(scenario.cluster.topology, scenario.profile.get()) ? "workers" : "GPUs"));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Remedy& a, const Remedy& b) { return a.speedup > b.speedup; });
  if (out.size() > most) out.resize(most);
  return out;
}

std::optional<BreakEven> break_even_of(const Scenario& scenario, const StepSimulation& simulation) {
  if (!has_network(scenario) || scenario.cluster.topology.nodes < 2 ||
      scenario.strategy.kind == StrategyKind::independent) {
    return std::nullopt;
  }
  BreakEven out;
  out.bandwidth_hidden = least_bandwidth(scenario, [&](double network) {
    const StepOutcome outcome = simulation.run(median_on(simulation, network));
    return outcome.use.breakdown.exposed_communication / outcome.seconds < 0.01;
  });
  const StepSimulation one =
      simulation.changed(scenario, {.workers = first_node_workers(scenario.cluster.topology)});
  const double alone = median_rate(one);
  out.bandwidth_next_node =
      least_bandwidth(scenario, [&](double network) { return median_rate(simulation, network) > alone; });
  return out;
}

}  // namespace foretrain

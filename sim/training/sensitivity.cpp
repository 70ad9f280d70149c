#include "sim/training/sensitivity.hpp"

#include <algorithm>

namespace foretrain {

void rank_sensitivity(std::vector<Sensitivity>& all, double step) {
  constexpr double noticeable = 1e-3;
  for (Sensitivity& each : all) {
    each.speedup = step / each.step;
    each.critical = each.speedup >= 1 + noticeable;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Sensitivity& a, const Sensitivity& b) { return a.speedup > b.speedup; });
}

std::vector<Sensitivity> sensitivity_of(const Scenario& scenario, const StepSimulation& simulation,
                                        double step) {
  std::vector<Sensitivity> out;
  const StepFactors median = simulation.at_quantile(0.5);
  auto add = [&](const char* input, const char* change, auto better) {
    StepFactors factors = median;
    factors.wires_by_ratio = true;
    better(factors);
    out.push_back({input, change, simulation.seconds(factors), 1, false});
  };
  constexpr const char* faster = "10 % faster";
  add("kernels", faster, [](StepFactors& f) { f.device /= 1.1; });
  add("host", faster, [](StepFactors& f) { f.host /= 1.1; });
  if (!simulation.collectives().empty()) {
    if (scenario.cluster.topology.nodes > 1) {
      add("network bandwidth", "10 % more", [](StepFactors& f) { f.wires.network = 1.1; });
      add("network latency", "10 % less", [](StepFactors& f) { f.wires.latency = 0.9; });
    }
    if (scenario.cluster.topology.gpus_per_node > 1) {
      add("links within nodes", "10 % more", [](StepFactors& f) { f.wires.inside = 1.1; });
    }
  }
  rank_sensitivity(out, step);
  return out;
}

}  // namespace foretrain

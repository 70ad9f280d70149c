// What a step depends on: each input 10 % better by itself, simulated.
#pragma once

#include <vector>

#include "sim/output/result.hpp"
#include "sim/training/step_simulation.hpp"

namespace foretrain {

// `simulation` is the scenario's own, `step` its median seconds. Largest gain first. Collectives change as
// the constants of library and wires have it: what was measured of them was at the rates that the cluster
// has.
std::vector<Sensitivity> sensitivity_of(const Scenario& scenario, const StepSimulation& simulation,
                                        double step);

// Fills in speedups and what is critical, and sorts.
void rank_sensitivity(std::vector<Sensitivity>& all, double step);

}  // namespace foretrain

// What limits a step: found by taking one limit away at a time, said in a sentence a person can act on.
#pragma once

#include <span>

#include "sim/output/result.hpp"
#include "sim/training/step_simulation.hpp"

namespace foretrain {

// `outcome` is the median step under `factors`, `links` its use of the links. Gains below 5 % of the step
// leave the GPU as the limit.
Limiting limiting_of(const Scenario& scenario, const StepSimulation& simulation, const StepFactors& factors,
                     const StepOutcome& outcome, std::span<const LinkUse> links);

}  // namespace foretrain

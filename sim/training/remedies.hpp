// What would make a step faster: each change simulated, best first; and the bandwidths at which the answer
// turns.
#pragma once

#include <vector>

#include "sim/input/scenario.hpp"
#include "sim/output/result.hpp"
#include "sim/training/step_simulation.hpp"

namespace foretrain {

// The scenario with the rate of every network link (and what the NIC reports) multiplied.
Scenario with_network(const Scenario& scenario, double factor);
// The scenario with another batch per worker; without its profile's batch it may extrapolate.
Scenario with_batch(const Scenario& scenario, std::int64_t batch_per_worker);

// Changes that help by 1 % or more, at most `most`. Speedup counts samples per second. `simulation` is the
// scenario's own.
std::vector<Remedy> remedies_of(const Scenario& scenario, const StepSimulation& simulation, double step,
                                std::size_t most = 5);

// hidden: the least line rate of a NIC at which less than 1 % of the step is exposed communication.
// next node: the least at which the present number of nodes gives more samples per second than one node.
// Searched between 100 Mbit/s and 10 Tbit/s to 1 %; 0 where it is outside.
std::optional<BreakEven> break_even_of(const Scenario& scenario, const StepSimulation& simulation);

}  // namespace foretrain

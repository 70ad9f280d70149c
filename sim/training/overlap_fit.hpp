// What interference is worth in a step: found from data-parallel steps that calibration measured on local
// GPUs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/input/scenario.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// One worker of the model on each of `gpus` of a node; precision, batch and profile are set by the caller.
// Throws Error where the model is not known.
// sequence 0: the model's own.
using ScenarioOfModel = std::function<Scenario(const std::string& model, int gpus, std::int64_t sequence)>;

// The data-parallel scenario that `entry` measured, with the given profile.
Scenario scenario_of_overlap(const OverlapEntry& entry, std::shared_ptr<const Profile> profile,
                             const ScenarioOfModel& scenario_of);

// Sets interference_scale of every overlap entry: the factor on what collectives cost the kernels beside
// them, in [0, largest_interference_scale], with which the simulated step is longer than one worker's by as
// much as the measured one (the ratio, for another build of the same program may have chosen other kernels
// than the one whose layers were timed). Where it is longer than with any such factor, that is 1 and
// collective_wait is set in its place (without a collective the scale stays at its bound). Returns what could
// not be fitted, and why.
std::vector<std::string> fit_overlaps(Profile& profile, const ScenarioOfModel& scenario_of);
inline constexpr double largest_interference_scale = 32;

// What collectives cost a step of a node besides their time, as OverlapEntry has it.
struct OverlapCost {
  double interference_scale = 1;
  double collective_wait = 0;  // seconds
};

// Of the entries of this model and precision that were connected first and whose fit is not at its bound, the
// nearest number of ranks first; between batches interpolated over the logarithm of the batch, beyond them
// that of the nearest. Of a model without entries: the medians of the precision's. 1 and 0 where there is
// none.
OverlapCost overlap_cost(const Profile& profile, const std::string& model, Precision precision,
                         std::int64_t batch, int ranks);

}  // namespace foretrain

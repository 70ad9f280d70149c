// How far a prediction reaches: what the calibration behind it had not seen.
#pragma once

#include <string>
#include <vector>

#include "sim/input/scenario.hpp"
#include "sim/training/profile.hpp"

namespace foretrain {

// Any of "batch", "gpus", "network", "model", "machine", in this order; empty: in sample. ("sequence" will
// stand after batch once models have one.)
//   model     no operator was timed in this model at this precision
//   batch     none at this batch per worker (left out beside "model", which implies it)
//   gpus      no collective was measured on this number of workers
//   network   no collective was measured on this network (within a node; or at this line rate between nodes)
//   machine   `here` is not the machine of every run of calibration: its identity differs or is not known; or
//             its workers were CPUs of other than the scenario's host.threads
// Collectives count only where the strategy has some. For a step-time profile only its batches are known.
std::vector<std::string> distance_of(const Scenario& scenario, const Machine& here);

}  // namespace foretrain

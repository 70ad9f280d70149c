// A scenario for a run record that holds none, such as one of a PyTorch job: worked out from the records
// alone.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "execute/validation.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// Steps of one worker, measured in the set's other records of the same model, precision, source and GPU,
// become a step-time profile; the recorded parameters the model; workers, nodes and line rate the cluster. A
// record of one worker is never predicted from its own batch. None where there is too little to work from;
// `problem` tells what.
std::optional<Scenario> recorded_scenario(const RunRecord& record, std::span<const FiledRecord> records,
                                          const Catalog& catalog, std::string& problem);

}  // namespace foretrain

// What would help where steps wait for their samples.
#pragma once

#include "sim/input/job.hpp"
#include "sim/job/host_cores.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// Puts the wait for samples into the remedies of a result whose step is still without it, and adds more
// workers that decode. `input` is the pipeline with the cores that the host leaves it, `supply` the seconds
// in which it makes the result's batch ready.
void remedies_beside_input(const Scenario& scenario, const CoreNeed& need, const InputPipeline& input,
                           double supply, Result& result);

}  // namespace foretrain

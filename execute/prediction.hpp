// What a run record says was predicted before the first step.
#pragma once

#include <cstdint>
#include <string>

#include "execute/run_record.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// Predicts the step and the job, writes the result as JSON (foretrain/result/1) and takes its digest; `here`
// is the machine that will run it. Throws Error (unavailable) where the profile lacks a part.
PredictionBefore predict_before(const Scenario& scenario, const Machine& here, std::uint64_t seed = 1);

// Says that a step will not fit into the devices of `here`, and the largest batch that would; empty where it
// fits, or where that is not known.
std::string memory_warning(const Scenario& scenario, const Machine& here);

// Says that the profile is of another type of device than `here`; empty where it is not, or where that is not
// known.
std::string device_warning(const Scenario& scenario, const Machine& here);

}  // namespace foretrain

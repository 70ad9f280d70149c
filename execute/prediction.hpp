// What a run record says was predicted before the first step.
#pragma once

#include <cstdint>
#include <string>

#include "execute/run_record.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// Predicts, writes the result as JSON (foretrain/result/1) and takes its digest; `here` is the machine that
// will run it. Throws Error (unavailable) where the profile lacks a part.
PredictionBefore predict_before(const Scenario& scenario, const Machine& here, std::uint64_t seed = 1);

}  // namespace foretrain

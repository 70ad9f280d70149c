// What `check` does with a scenario beyond reading it.
#pragma once

#include "sim/input/diagnostics.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// Predicts the scenario without keeping the prediction, so that `check` accepts what `simulate` accepts. What
// is wrong goes to `diagnostics`. Throws Error (unavailable) where the profile lacks a part.
void rehearse(const Scenario& scenario, Diagnostics& diagnostics);

}  // namespace foretrain

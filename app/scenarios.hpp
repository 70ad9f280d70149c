// Reads the scenarios that a command line names.
#pragma once

#include <string>
#include <vector>

#include "app/predicting.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain::app {

// In the order of `files`; "-" is standard input. Throws Error with what is wrong in all of them.
std::vector<Scenario> read_scenarios(const std::vector<std::string>& files, const PredictingOptions& options);

// The settings with those of --profile, as the reader takes them; a path of --profile is meant from the
// working folder and not from the scenario's.
std::vector<std::string> settings_of(const PredictingOptions& options);

}  // namespace foretrain::app

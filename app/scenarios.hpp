// Reads the scenarios that a command line names.
#pragma once

#include <string>
#include <vector>

#include "app/predicting.hpp"
#include "sim/input/overrides.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {
class Catalog;
}

namespace foretrain::app {

// Of a file, compressed or not; "-" is standard input. Throws Error.
std::string text_of(const std::string& file);

// The text of a scenario and the name that messages show.
struct ScenarioSource {
  std::string text, file;
};

// "-" is standard input. Throws Error.
ScenarioSource read_source(const std::string& file);
std::string scenario_name(const ScenarioSource& source);

// Safe to call from several threads. Throws Error with all that is wrong.
Scenario scenario_from(const ScenarioSource& source, const Overrides& settings);
Scenario scenario_from(const ScenarioSource& source, const Overrides& settings, const Catalog& catalog);

// In the order of `files`. Throws Error with what is wrong in all of them.
std::vector<Scenario> read_scenarios(const std::vector<std::string>& files, const PredictingOptions& options);

// Profiles as a scenario names them: one, or a list of which later ones win; empty where there is none.
std::string profile_list(const std::vector<std::string>& profiles);

// The settings with those of --profile, as the reader takes them; a path of --profile is meant from the
// working folder and not from the scenario's.
Overrides settings_of(const PredictingOptions& options);

}  // namespace foretrain::app

// A scenario, and what it predicts.
#include "sim/input/scenario_reader.hpp"
#include "sim/job/predict_job.hpp"
#include "tests/fuzz/fuzz.hpp"

FORETRAIN_FUZZ(scenario) {
  using namespace foretrain;
  Diagnostics diagnostics;
  const auto scenario = parse_scenario(text, "scenarios/fuzz.yaml", fuzz::catalog(), {}, diagnostics);
  constexpr std::size_t quick = 64;  // larger clusters are simulated, and take their time
  if (!scenario || scenario->cluster.topology.workers.size() > quick) return;
  JobOptions options;
  options.remedies = false;
  predict_job(*scenario, options);
}

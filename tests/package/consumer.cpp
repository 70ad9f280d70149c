// consumer DATA SCENARIO: the step of a scenario, in seconds.
#include <cstdio>

#include "sim/input/catalog.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/job/predict_job.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const foretrain::Scenario scenario = foretrain::read_scenario(argv[2], foretrain::Catalog({argv[1]}));
    std::printf("%.17g\n", foretrain::predict_job(scenario).step.time);
  } catch (const foretrain::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  }
}

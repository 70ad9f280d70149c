#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "app/messages.hpp"
#include "app/predicting.hpp"
#include "app/scenarios.hpp"
#include "app/signals.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/output/event_file.hpp"
#include "sim/output/scalars.hpp"

namespace foretrain::app {
namespace {

struct Options : PredictingOptions {
  std::vector<std::string> files;
  std::string tensorboard;
  bool every_step = false, without_noise = false;
};

void tell_speed(std::uint64_t events, double seconds) {
  detail(fmt::format("simulated {} events in {} of processor time: {:.2g} million a second on one core",
                     events, format_time(seconds),
                     static_cast<double>(events) / std::max(seconds, 1e-6) * 1e-6));
}

int simulate(const Options& options) {
  const std::vector<Scenario> scenarios = read_scenarios(options.files, options);
  if (!options.trace.empty() && scenarios.size() > 1) {
    throw Error(ErrorKind::input, "simulate: --trace shows one scenario; name one, or trace each by itself");
  }
  if (options.without_noise && !options.every_step)
    throw Error(ErrorKind::input, "simulate: --no-noise is of --every-step: give both");
  for (const Scenario& scenario : scenarios)
    if (options.every_step && !scenario.job)
      warning(scenario.name + ": --every-step replays the updates of a job, and it has none");
  ResultTargets targets(options);
  Timeline timeline;
  std::vector<Result> results;
  for (const Scenario& scenario : scenarios) {
    if (interrupt_requested()) {
      note(fmt::format("interrupted: {} of {} scenarios are finished", results.size(), scenarios.size()));
      break;
    }
    if (scenarios.size() > 1) {
      progress(fmt::format("{} of {}: {}", results.size() + 1, scenarios.size(), scenario.name));
    }
    JobOptions how;
    how.seed = options.seed;
    how.timeline = targets.wants_timeline(scenarios.size()) ? &timeline : nullptr;
    how.every_step = options.every_step;
    how.noise = !options.without_noise;
    const std::clock_t before = std::clock();
    results.push_back(predict_job(scenario, how));
    tell_speed(results.back().events, static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
    results.back().question = scenario.question;
  }
  end_progress();
  if (!results.empty()) targets.write(results, &timeline);
  if (options.tensorboard.empty()) return 0;
  for (const Result& result : results)
    write_event_file(options.tensorboard, result.scenario, "predicted", scalars_of(result));
  return 0;
}

}  // namespace

Action prepare_simulate(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("SCENARIO", options->files, "scenario files; - is standard input")->required();
  command.add_flag("--every-step", options->every_step,
                   "replay each update of a job by itself, its time drawn from the spread of steps");
  command.add_flag("--no-noise", options->without_noise, "with --every-step: each takes the mean");
  command
      .add_option("--tensorboard", options->tensorboard,
                  "write step times, batch and loss as TensorBoard's scalars")
      ->type_name("DIR");
  add_predicting_options(command, *options);
  return [options] { return simulate(*options); };
}

}  // namespace foretrain::app

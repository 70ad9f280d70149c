#include "sim/job/plan.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/grid.hpp"
#include "app/messages.hpp"
#include "app/terminal.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "sim/output/console.hpp"
#include "sim/output/file_writer.hpp"
#include "sim/output/plan_report.hpp"

namespace foretrain::app {
namespace {

struct Options : PredictingOptions {
  std::string file, deadline, budget;
  std::vector<std::string> vary, zip;
  unsigned threads = 0;
};

PlanBounds bounds_of(const Options& options) {
  PlanBounds bounds;
  if (!options.deadline.empty()) {
    const auto parsed = parse_job_time(options.deadline);
    const auto* time = std::get_if<JobTime>(&parsed);
    if (time == nullptr) throw Error(ErrorKind::input, "--deadline: " + std::get<UnitError>(parsed).what);
    bounds.deadline = time->in_seconds();
  }
  if (!options.budget.empty()) {
    const auto [amount, currency] = parse_budget(options.budget);
    bounds.budget = amount;
    bounds.currency = currency;
  }
  return bounds;
}

int plan(const Options& options) {
  const PlanBounds bounds = bounds_of(options);
  if (!options.trace.empty() || !options.report.empty() || !options.csv.empty()) {
    throw Error(ErrorKind::input,
                "plan: writes --json; for --csv and --report use sweep with the same --vary");
  }
  std::unique_ptr<FileWriter> json;
  if (!options.json.empty()) json = std::make_unique<FileWriter>(options.json);
  Grid grid(options.file, options, parse_axes(options.vary, options.zip), options.threads);
  grid.compute();
  end_progress();
  const Sweep rows = grid.rows();
  if (!rows.complete)
    note(fmt::format("interrupted: {} of {} points are finished", rows.rows.size(), grid.size()));
  if (rows.rows.empty()) return 1;
  const std::vector<std::string> names = rows.names();
  const std::vector<Result> results = rows.results();
  const Plan made = plan_of(results, names, bounds);
  if (json) {
    write_plan_json(made, [&](std::string_view piece) { json->write(piece); });
    json->commit();
  }
  if (options.json != "-") {
    const TextStyle style = text_style(STDOUT_FILENO);
    write_file("-", plan_text(made, style) + caveats_text(results, names, style));
  }
  return made.cheapest ? 0 : static_cast<int>(ErrorKind::bound);
}

}  // namespace

Action prepare_plan(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("SCENARIO", options->file, "a scenario file with a job; - is standard input")
      ->required();
  command.add_option("--deadline", options->deadline, "the job ends within this, as in 24h")
      ->type_name("TIME");
  command.add_option("--budget", options->budget, "the job costs at most this, as in 400USD")
      ->type_name("AMOUNT");
  add_vary_options(command, options->vary, options->zip, options->threads);
  add_predicting_options(command, *options);
  // Known, to be refused with what to take in their place.
  for (const char* name : {"--csv", "--trace", "--report"}) command.get_option(name)->group("");
  return [options] { return plan(*options); };
}

}  // namespace foretrain::app

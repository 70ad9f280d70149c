#include "sim/job/explain.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/messages.hpp"
#include "app/scenarios.hpp"
#include "app/terminal.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/output/explanation_report.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

struct Options : PredictingOptions {
  std::string file;
};

int explain_file(const Options& options) {
  if (!options.trace.empty() || !options.report.empty() || !options.csv.empty()) {
    throw Error(ErrorKind::input, "explain: writes --json; for the others simulate one of its readings");
  }
  const Scenario scenario = scenario_from(read_source(options.file), settings_of(options));
  for (const std::string& hint : scenario.warnings) warning(hint);
  const Explanation explanation = explain(scenario);
  if (!options.json.empty()) {
    FileWriter writer(options.json);
    write_explanation_json(explanation, [&](std::string_view piece) { writer.write(piece); });
    writer.commit();
  }
  if (options.json != "-") write_file("-", explanation_text(explanation, text_style(STDOUT_FILENO)));
  return 0;
}

}  // namespace

Action prepare_explain(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("SCENARIO", options->file, "a scenario file with `observed`; - is standard input")
      ->required();
  add_predicting_options(command, *options);
  for (const char* name : {"--csv", "--trace", "--report", "--seed"}) command.get_option(name)->group("");
  return [options] { return explain_file(*options); };
}

}  // namespace foretrain::app

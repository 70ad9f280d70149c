#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/predicting.hpp"
#include "app/scenarios.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/input/file_kind.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/output/comparison.hpp"
#include "sim/output/result_reader.hpp"

namespace foretrain::app {
namespace {

struct Options : PredictingOptions {
  std::vector<std::string> files;
};

bool is_result(const std::string& file) {
  return file.ends_with(".json") || file.ends_with(".json.gz");
}

// Results that were written before, or those of a scenario.
std::vector<Result> results_of(const std::string& file, const Options& options, Timeline* timeline) {
  ScenarioSource piped;
  if (file == "-") piped = {text_of(file), "standard-input"};
  const bool is_piped_result = schema_of(piped.text).starts_with("foretrain/");
  if (is_piped_result || is_result(file)) {
    const std::string text = is_piped_result ? piped.text : text_of(file);
    Diagnostics diagnostics;
    refuse_other_kind(text, file, FileKind::result, diagnostics);
    diagnostics.throw_errors();
    return read_results(text, file);
  }
  JobOptions how;
  how.seed = options.seed;
  how.remedies = false;
  how.timeline = timeline;
  return {predict_job(scenario_from(file == "-" ? piped : read_source(file), settings_of(options)), how)};
}

int compare_files(const Options& options) {
  if (std::all_of(options.files.begin(), options.files.end(), is_result) &&
      !(options.settings.empty() && options.profiles.empty()))
    throw Error(ErrorKind::input,
                "compare: --set and --profile are of scenarios; results stay as they were written");
  ResultTargets targets(options);
  Timeline timeline;
  std::vector<Result> results;
  std::vector<Diagnostic> findings;
  for (const std::string& file : options.files) {
    try {
      // Of the first scenario: two on the tracks of one rank would overlap.
      const bool is_traced = targets.wants_trace() && timeline.slices.empty();
      for (Result& result : results_of(file, options, is_traced ? &timeline : nullptr))
        results.push_back(std::move(result));
    } catch (const Error& wrong) {
      if (wrong.kind() != ErrorKind::input) throw;
      findings.insert(findings.end(), wrong.diagnostics().begin(), wrong.diagnostics().end());
    }
  }
  if (!findings.empty()) throw Error(std::move(findings));
  if (results.size() < 2) throw Error(ErrorKind::input, "compare: name two results or scenarios at least");
  if (targets.wants_trace() && timeline.slices.empty())
    throw Error(ErrorKind::input, "compare: --trace shows the first scenario, and none is named");
  targets.write(compare(results), results, &timeline);
  return 0;
}

}  // namespace

Action prepare_compare(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command
      .add_option(
          "RESULT|SCENARIO", options->files,
          "results that --json has written (NAME.json), or scenarios to predict; the first is what the "
          "others are held against")
      ->required();
  add_predicting_options(command, *options);
  return [options] { return compare_files(*options); };
}

}  // namespace foretrain::app

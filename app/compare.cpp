#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/scenarios.hpp"
#include "app/terminal.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/input/document.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/output/comparison.hpp"
#include "sim/output/result_reader.hpp"

namespace foretrain::app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> settings;
  std::string json;
  std::uint64_t seed = 1;
};

// Results that were written before, or those of a scenario.
std::vector<Result> results_of(const std::string& file, const Options& options) {
  if (file.ends_with(".json")) return read_results(read_file_limited(file), file);
  JobOptions how;
  how.seed = options.seed;
  how.remedies = false;
  return {predict_job(scenario_from(read_source(file), options.settings), how)};
}

int compare_files(const Options& options) {
  std::vector<Result> results;
  std::vector<Diagnostic> findings;
  for (const std::string& file : options.files) {
    try {
      for (Result& result : results_of(file, options)) results.push_back(std::move(result));
    } catch (const Error& wrong) {
      if (wrong.kind() != ErrorKind::input) throw;
      findings.insert(findings.end(), wrong.diagnostics().begin(), wrong.diagnostics().end());
    }
  }
  if (!findings.empty()) throw Error(std::move(findings));
  if (results.size() < 2) throw Error(ErrorKind::input, "compare: name two results or scenarios at least");
  const Comparison comparison = compare(results);
  if (!options.json.empty()) {
    FileWriter writer(options.json);
    write_comparison_json(comparison, [&](std::string_view piece) { writer.write(piece); });
    writer.commit();
  }
  if (options.json != "-") write_file("-", comparison_text(comparison, text_style(STDOUT_FILENO)));
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
  command.add_option("--set", options->settings, "set any key of the scenarios; may be repeated")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--json", options->json, "write the ratios as JSON; - is standard output")
      ->type_name("FILE|-");
  command.add_option("--seed", options->seed, "of the random draws (default 1)")->type_name("N");
  return [options] { return compare_files(*options); };
}

}  // namespace foretrain::app

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/messages.hpp"
#include "app/predicting.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/input/gunzip.hpp"
#include "sim/output/html.hpp"
#include "sim/output/result_reader.hpp"

namespace foretrain::app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out;
};

int report(const Options& options) {
  std::vector<ReadResults> read;
  std::vector<Diagnostic> findings;
  for (const std::string& file : options.files) {
    try {
      read.push_back(read_results_of(read_possibly_compressed(file), file));
    } catch (const Error& wrong) {
      findings.insert(findings.end(), wrong.diagnostics().begin(), wrong.diagnostics().end());
    }
  }
  if (!findings.empty()) throw Error(std::move(findings));
  std::vector<std::string> notes;
  const std::vector<Result> results = joined_results(std::move(read), notes);
  for (const std::string& text : notes) warning(text);
  FileWriter writer(options.out);
  write_html(results, validation_that_ships(), [&](std::string_view piece) { writer.write(piece); });
  writer.commit();
  return 0;
}

}  // namespace

Action prepare_report(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command
      .add_option("RESULT.json", options->files,
                  "results that --json has written, a sweep's and its parts' too")
      ->required();
  command.add_option("-o,--out", options->out, "the page; - is standard output")
      ->type_name("OUT.html")
      ->required();
  return [options] { return report(*options); };
}

}  // namespace foretrain::app

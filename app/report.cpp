#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/predicting.hpp"
#include "app/report_inputs.hpp"
#include "app/scenarios.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/output/html.hpp"
#include "sim/output/html_measured.hpp"

namespace foretrain::app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out;
};

int report(const Options& options) {
  ReportInputs inputs;
  std::vector<Diagnostic> findings;
  for (const std::string& file : options.files) {
    try {
      inputs.add(text_of(file), file);
    } catch (const Error& wrong) {
      findings.insert(findings.end(), wrong.diagnostics().begin(), wrong.diagnostics().end());
    }
  }
  if (!findings.empty()) throw Error(std::move(findings));
  std::vector<std::string> notes;
  const std::vector<Result> results = inputs.results(notes);
  for (const std::string& text : notes) warning(text);
  HtmlExtras extras;
  extras.sections = inputs.sections();
  if (results.empty() && std::all_of(extras.sections.begin(), extras.sections.end(),
                                     [](const std::string& section) { return section.empty(); })) {
    throw Error(ErrorKind::input,
                "report: the files hold nothing to show; collectives that were measured are "
                "shown beside what `collective --json` predicts of them");
  }
  FileWriter writer(options.out);
  write_html(
      results, validation_that_ships(), [&](std::string_view piece) { writer.write(piece); }, extras);
  writer.commit();
  return 0;
}

}  // namespace

Action prepare_report(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command
      .add_option("FILE", options->files,
                  "results that --json has written, a sweep's and its parts' too; run records; what validate "
                  "--json has written; what collective --json has written, and a profile that measured the "
                  "same collectives; - is standard input")
      ->required();
  command.add_option("-o,--out", options->out, "the page; - is standard output")
      ->type_name("OUT.html")
      ->required();
  return [options] { return report(*options); };
}

}  // namespace foretrain::app

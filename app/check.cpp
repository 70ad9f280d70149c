#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/scenarios.hpp"
#include "app/verb.hpp"
#include "execute/run_record_json.hpp"
#include "sim/base/error.hpp"
#include "sim/input/check.hpp"
#include "sim/input/reference.hpp"
#include "sim/job/rehearsal.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

// A line of the report; empty where there was an error. What the profile of a scenario lacks goes to
// `missing`.
std::string check(const std::string& file, const Catalog& catalog, Diagnostics& diagnostics,
                  std::vector<Diagnostic>& missing) {
  const std::string name = file == "-" ? "standard input" : file;
  const std::size_t errors_before = diagnostics.error_count();
  CheckedFile checked;
  try {
    const std::string text = text_of(file);
    checked = check_text(text, name, catalog, diagnostics);
    if (checked.kind == FileKind::run_record && diagnostics.error_count() == errors_before) {
      if (const auto record = parse_run_record(text, name, diagnostics)) {
        checked.summary = fmt::format("{} ranks", record->ranks.size());
      }
    }
    if (checked.scenario) rehearse(*checked.scenario, diagnostics);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unavailable) {
      for (const Diagnostic& finding : error.diagnostics()) missing.push_back({{name}, finding.what});
      return {};
    }
    if (error.kind() != ErrorKind::input) throw;
    diagnostics.add(error);
  }
  if (diagnostics.error_count() != errors_before) return {};
  return fmt::format("{}: {}, {}\n", name, name_of(checked.kind), checked.summary);
}

int check(const std::vector<std::string>& files) {
  const Catalog catalog(data_directories());
  Diagnostics diagnostics;
  std::vector<Diagnostic> missing;
  std::string report;
  for (const std::string& file : files) report += check(file, catalog, diagnostics, missing);
  for (const Diagnostic& hint : diagnostics.warnings()) warning(hint.text());
  for (const Diagnostic& each : diagnostics.notes()) report += each.text() + "\n";
  if (!report.empty()) write_file("-", report);
  if (diagnostics.ok() && !missing.empty()) throw Error(std::move(missing), ErrorKind::unavailable);
  for (const Diagnostic& each : missing) diagnostics.error(each.where, each.what);
  diagnostics.throw_errors();
  return 0;
}

}  // namespace

Action prepare_check(CLI::App& command) {
  auto files = std::make_shared<std::vector<std::string>>();
  auto reference = std::make_shared<bool>(false);
  command.add_option("FILE", *files, "scenarios, models, topologies, profiles, results; - is standard input");
  command.add_flag("--reference", *reference, "print the reference of the input files as Markdown");
  return [files, reference] {
    if (*reference) {
      write_file("-", reference_page());
      return 0;
    }
    if (files->empty()) throw Error(ErrorKind::input, "check: no file is given");
    return check(*files);
  };
}

}  // namespace foretrain::app

#include "app/predicting.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/terminal.hpp"
#include "sim/base/error.hpp"
#include "sim/output/console.hpp"
#include "sim/output/csv.hpp"
#include "sim/output/html.hpp"
#include "sim/output/json.hpp"
#include "sim/output/kineto_trace.hpp"
#include "sim/output/perfetto_trace.hpp"
#include "sim/output/trace.hpp"

namespace foretrain::app {
namespace {

// The largest seed that every reader of JSON keeps exactly.
constexpr std::uint64_t largest_seed = (std::uint64_t{1} << 53) - 1;

std::unique_ptr<FileWriter> open_target(const std::string& target) {
  return target.empty() ? nullptr : std::make_unique<FileWriter>(target);
}

template <class Write>
void fill(FileWriter* writer, Write write) {
  if (writer == nullptr) return;
  write([writer](std::string_view piece) { writer->write(piece); });
  writer->commit();
}

std::string table_text(std::span<const Result> results, ConsoleOptions options = {}) {
  options.style = text_style(STDOUT_FILENO);
  options.details = verbosity() == Verbosity::verbose;
  options.validation = validation_that_ships();
  return console_text(results, options);
}

}  // namespace

void add_predicting_options(CLI::App& command, PredictingOptions& options) {
  command
      .add_option("--set", options.settings,
                  "set any key of the scenario, as in cluster.nodes=4; may be repeated")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--profile", options.profiles, "a profile in place of the scenario's; may be repeated")
      ->type_name("NAME|FILE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command.add_option("--json", options.json, "write the results as JSON; - is standard output")
      ->type_name("FILE|-");
  command.add_option("--csv", options.csv, "write the results as CSV, a row each; - is standard output")
      ->type_name("FILE|-");
  command
      .add_option(
          "--trace", options.trace,
          "write a step as a trace that ui.perfetto.dev opens; as Perfetto's own where the name ends in "
          ".pftrace, "
          "in the shape of PyTorch's profiler where it ends in .pt.trace.json; compressed where in .gz")
      ->type_name("FILE");
  command.add_option("--report", options.report, "write the results as one HTML page")
      ->type_name("FILE.html");
  command.add_option("--seed", options.seed, "of the random draws (default 1)")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{0}, largest_seed));
}

std::optional<ValidationSummary> validation_that_ships() {
  std::vector<std::filesystem::path> folders;
  for (const auto& folder : data_directories()) folders.push_back(folder / "validation");
  std::vector<std::string> unreadable;
  const auto summary = read_validation_summary(folders, unreadable);
  for (const std::string& file : unreadable) warning(file + " is no readable validation record; left out");
  return summary;
}

ResultTargets::ResultTargets(const PredictingOptions& options) {
  for (const std::string& target : {options.json, options.csv, options.trace, options.report})
    table_ = table_ && target != "-" && target != "/dev/stdout";
  json_ = open_target(options.json);
  csv_ = open_target(options.csv);
  trace_ = open_target(options.trace);
  trace_name_ = options.trace;
  report_ = open_target(options.report);
}

void ResultTargets::write(std::span<const Result> results, const Timeline* timeline) {
  // Files first: they are kept even where nobody reads standard output any more.
  fill(json_.get(), [&](const TextSink& sink) { write_json(results, sink); });
  write_beside(results, timeline);
  if (table_) write_file("-", table_text(results));
}

void ResultTargets::write_beside(std::span<const Result> results, const Timeline* timeline) {
  fill(csv_.get(), [&](const TextSink& sink) { write_csv(results, sink); });
  write_report(results, results.size() == 1 ? timeline : nullptr);
  if (timeline == nullptr || results.empty()) return;
  fill(trace_.get(), [&](const TextSink& sink) {
    std::string name = trace_name_;
    if (name.ends_with(".gz")) name.erase(name.size() - 3);
    if (name.ends_with(".pftrace") || name.ends_with(".perfetto-trace")) {
      write_perfetto_trace(*timeline, results.front(), sink);
    } else if (name.ends_with(".pt.trace.json")) {
      write_kineto_trace(*timeline, results.front(), sink);
    } else {
      write_trace(*timeline, sink);
    }
  });
}

void ResultTargets::write_report(std::span<const Result> results, const Timeline* timeline) {
  if (report_ == nullptr) return;
  const auto validation = validation_that_ships();
  fill(report_.get(), [&](const TextSink& sink) { write_html(results, validation, sink, {timeline, {}}); });
}

void ResultTargets::write(const Comparison& comparison, std::span<const Result> results,
                          const Timeline* timeline) {
  fill(json_.get(), [&](const TextSink& sink) { write_comparison_json(comparison, sink); });
  write_beside(results, timeline);
  if (!table_) return;
  const TextStyle style = text_style(STDOUT_FILENO);
  std::vector<std::string> names;
  for (const Result& result : results) names.push_back(result.scenario);
  write_file("-", comparison_text(comparison, style) + caveats_text(results, names, style));
}

void ResultTargets::write(const Sweep& sweep) {
  fill(json_.get(), [&](const TextSink& sink) { write_sweep_json(sweep, sink); });
  fill(csv_.get(), [&](const TextSink& sink) { write_sweep_csv(sweep, sink); });
  if (report_ == nullptr && !table_) return;
  const std::vector<std::string> names = sweep.names();
  std::vector<Result> results = sweep.results();
  ConsoleOptions options;
  options.labels.headings = short_names(sweep.axes);
  for (const SweepRow& row : sweep.rows) options.labels.rows.push_back(row.values);
  options.names = names;
  const std::string table = table_ ? table_text(results, std::move(options)) : "";
  for (std::size_t i = 0; i < results.size(); ++i) results[i].scenario += " (" + names[i] + ')';
  write_report(results);
  if (table_) write_file("-", table);
}

}  // namespace foretrain::app

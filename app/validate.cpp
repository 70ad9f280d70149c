#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/data_directories.hpp"
#include "app/messages.hpp"
#include "app/scenarios.hpp"
#include "app/terminal.hpp"
#include "app/verb.hpp"
#include "execute/parts_files.hpp"
#include "execute/parts_validation.hpp"
#include "execute/record_files.hpp"
#include "execute/reprediction.hpp"
#include "execute/validation_text.hpp"
#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/gunzip.hpp"
#include "sim/input/profile_entry.hpp"
#include "sim/input/profile_json.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

struct ValidateOptions {
  std::vector<std::string> records;
  bool parts = false;
  std::string max_error, json, csv;
  std::vector<std::string> profiles;
};

// "5%" or "5 %" as a fraction.
double read_percent(const std::string& text) {
  std::size_t used = 0;
  double number = -1;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  while (used > 0 && used < text.size() && text[used] == ' ') ++used;
  const bool whole = used > 0 && text.substr(used) == "%" && std::isfinite(number) && number >= 0;
  if (!whole) {
    throw Error(ErrorKind::input,
                fmt::format("validate: --max-error takes a percentage, as in 5%; '{}' is none", text));
  }
  constexpr double percents = 100;
  return number / percents;
}

template <typename Content>
void write_target(const std::string& target, void (*write)(const Content&, const TextSink&),
                  const Content& validation) {
  if (target.empty()) return;
  FileWriter writer(target);
  write(validation, [&](std::string_view piece) { writer.write(piece); });
  writer.commit();
}

// Exit status: 3 where a row that counts is worse than the bound, or where no row could be judged.
int judge(const Validation& validation, double bound) {
  if (validation.summary.rows == 0) {
    error("--max-error: no row has a prediction to be judged");
    return static_cast<int>(ErrorKind::bound);
  }
  int missed = 0;
  for (const ValidationRow& row : validation.rows) {
    if (!row.error || row.noisy() || std::abs(*row.error) <= bound) continue;
    ++missed;
    error(fmt::format("{}: off by {:+.2f} %, more than {:g} %", row.scenario, *row.error * 100, bound * 100));
  }
  for (const JobRow& job : validation.jobs) {
    const JobPartRow& total = job.parts.back();
    if (!total.error || std::abs(*total.error) <= bound) continue;
    ++missed;
    error(fmt::format("{}: its whole job is off by {:+.2f} %, more than {:g} %", job.scenario,
                      *total.error * 100, bound * 100));
  }
  return missed > 0 ? static_cast<int>(ErrorKind::bound) : 0;
}

int judge_parts(const PartsValidation& validation, double bound) {
  int missed = 0, judged = 0;
  for (const PartsRow& row : validation.rows) {
    if (row.kind != "whole") continue;
    ++judged;
    if (std::abs(row.error()) <= bound) continue;
    ++missed;
    error(fmt::format("{} {} batch {}: off by {:+.2f} %, more than {:g} %", row.model, name_of(row.precision),
                      row.batch, row.error() * 100, bound * 100));
  }
  if (judged == 0) error("--max-error: the profile holds no step that could be predicted");
  return missed > 0 || judged == 0 ? static_cast<int>(ErrorKind::bound) : 0;
}

// A profile, and what calibration checked beside it.
int validate_parts_of(const ValidateOptions& options, double bound) {
  Diagnostics diagnostics;
  std::shared_ptr<const Profile> profile;
  std::vector<OverlapEntry> overlaps;
  const Catalog catalog(data_directories());
  for (const std::string& name : options.records) {
    const auto file = catalog.resolve(DataKind::profile, name, {"validate --parts"}, diagnostics);
    if (!file) continue;
    const std::string text = read_possibly_compressed(*file);
    if (is_calibration_check(text)) {
      for (auto& each : parse_overlaps(text, file->string(), diagnostics))
        overlaps.push_back(std::move(each));
    } else if (auto read = parse_profile(text, file->string(), diagnostics)) {
      if (profile) diagnostics.error({file->string()}, "is a second profile; --parts takes one");
      profile = std::make_shared<const Profile>(std::move(*read));
    }
  }
  if (!profile && diagnostics.ok()) diagnostics.error({"validate --parts"}, "needs a profile");
  diagnostics.throw_errors();

  const PartsValidation validation =
      validate_parts(profile, overlaps, [&](const std::string& model, int gpus, std::int64_t sequence) {
        return scenario_of_model(catalog, model, gpus, sequence);
      });
  for (const std::string& problem : validation.problems) warning("not predicted: " + problem);
  write_target(options.json, write_parts_json, validation);
  write_target(options.csv, write_parts_csv, validation);
  if (options.json != "-" && options.csv != "-") write_file("-", parts_table(validation));
  return bound < 0 ? 0 : judge_parts(validation, bound);
}

// What is said of many rows alike is said once: of each kind (the words before the colon) the first, all with
// -v.
void tell_notes(const Validation& validation) {
  std::vector<std::pair<std::string, std::string>> notes;  // of which row
  for (const ValidationRow& row : validation.rows)
    for (const std::string& each : row.notes) notes.emplace_back(each, row.scenario);
  for (const JobRow& row : validation.jobs)
    for (const std::string& each : row.notes) notes.emplace_back(each, row.scenario);
  const auto kind_of = [](const std::string& text) { return text.substr(0, text.find(':')); };
  std::map<std::string, int> counts;
  for (const auto& [text, row] : notes) ++counts[kind_of(text)];
  std::set<std::string> told;
  for (const auto& [text, row] : notes) {
    const std::string kind = kind_of(text);
    const int others = counts[kind] - 1;
    const bool all = verbosity() == Verbosity::verbose;
    if (!all && !told.insert(kind).second) continue;
    note(row + ": " + text + (all || others == 0 ? "" : fmt::format("; {} more (-v)", others)));
  }
}

// Names and files that are not there are told once, before any record is.
void check_profiles(const std::vector<std::string>& profiles, const Catalog& catalog) {
  Diagnostics diagnostics;
  for (const std::string& name : profiles) {
    Value entry;
    entry.kind = ValueKind::scalar;
    entry.text = name;
    entry.file = std::make_shared<const std::string>("--profile " + name);
    read_profile_entry(entry, catalog, diagnostics);
  }
  diagnostics.throw_errors();
}

int validate(const ValidateOptions& options) {
  const double bound = options.max_error.empty() ? -1 : read_percent(options.max_error);
  if (options.parts && !options.profiles.empty())
    throw Error(ErrorKind::input, "validate: --parts has its profile as RUN: leave --profile out");
  if (options.parts) return validate_parts_of(options, bound);
  const Catalog catalog(data_directories());
  check_profiles(options.profiles, catalog);
  std::vector<std::string> skipped, left_out;
  const std::vector<FiledRecord> records = read_record_files(options.records, &left_out);
  for (const std::string& each : left_out) warning(each + "; left out");
  Repredictor repredict(catalog, records, profile_list(options.profiles));
  std::size_t done = 0;
  const Validation validation = validate_records(
      records,
      [&](const FiledRecord& filed) {
        progress(fmt::format("predicting {} ({} of {} records)", filed.record.scenario_name, ++done,
                             records.size()));
        return repredict(filed);
      },
      skipped);
  end_progress();
  for (const std::string& each : skipped) warning(each + "; left out");
  tell_notes(validation);

  write_target(options.json, write_validation_json, validation);
  write_target(options.csv, write_validation_csv, validation);
  if (options.json != "-" && options.csv != "-") {
    ValidationTableOptions table;
    table.style = text_style(STDOUT_FILENO);
    if (!is_terminal(STDOUT_FILENO)) table.style.width = std::numeric_limits<int>::max();
    table.profile = profile_list(options.profiles);
    write_file("-", validation_table(validation, table));
  }
  return bound < 0 ? 0 : judge(validation, bound);
}

}  // namespace

Action prepare_validate(CLI::App& command) {
  auto options = std::make_shared<ValidateOptions>();
  command
      .add_option("RUN", options->records, "run records, or folders that hold some (searched to any depth)")
      ->required();
  command
      .add_option("--profile", options->profiles,
                  "predict anew from this profile, not from each record's own; the predictions made before "
                  "stay; may be repeated, later ones win")
      ->type_name("NAME|FILE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      .add_option("--max-error", options->max_error, "exit status 3 where a row's error is larger, as in 5%")
      ->type_name("PERCENT");
  command.add_flag(
      "--parts", options->parts,
      "hold a profile's steps against their layers instead: RUN is the profile, and the checks that "
      "calibrate --validate-parts wrote");
  command.add_option("--json", options->json, "write rows and summaries as JSON; - is standard output")
      ->type_name("FILE|-");
  command.add_option("--csv", options->csv, "write the rows as CSV; - is standard output")
      ->type_name("FILE|-");
  return [options] { return validate(*options); };
}

}  // namespace foretrain::app

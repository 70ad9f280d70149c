#include "app/scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>

#include "app/data_directories.hpp"
#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/document.hpp"
#include "sim/input/file_kind.hpp"
#include "sim/input/gunzip.hpp"
#include "sim/input/scenario_reader.hpp"

namespace foretrain::app {
namespace {

std::string standard_input() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const std::size_t limit = DocumentLimits().bytes;
  if (text.size() > limit) throw Error(ErrorKind::input, "standard input: larger than any scenario can be");
  return text;
}

}  // namespace

std::string text_of(const std::string& file) {
  if (file != "-") return read_possibly_compressed(file);
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  constexpr std::size_t most = std::size_t{256} << 20;
  return is_gzip(text) ? gunzip(text, "standard input", most) : text;
}

std::string profile_list(const std::vector<std::string>& profiles) {
  if (profiles.size() < 2) return profiles.empty() ? "" : profiles[0];
  return fmt::format("[{}]", fmt::join(profiles, ", "));
}

Overrides settings_of(const PredictingOptions& options) {
  Overrides settings(options.settings.begin(), options.settings.end());
  if (options.profiles.empty()) return settings;
  std::vector<std::string> names;
  for (const std::string& profile : options.profiles) {
    const std::string name = looks_like_path(profile) ? std::filesystem::absolute(profile).string() : profile;
    std::string& quoted = names.emplace_back("'");
    for (const char c : name) quoted += c == '\'' ? "''" : std::string(1, c);
    quoted += '\'';
  }
  settings.emplace_back("profile=" + profile_list(names), "--profile");
  return settings;
}

ScenarioSource read_source(const std::string& file) {
  if (file == "-") return {standard_input(), "standard-input"};
  std::error_code code;
  if (!std::filesystem::exists(file, code)) {
    // `foretrain list` shows names; a scenario is named by its file.
    const auto ships = Catalog(data_directories()).find(DataKind::scenario, data_name(file));
    if (ships && file.find('/') == std::string::npos)
      throw Error({{{file},
                    fmt::format("there is no such file; the scenario of that name that ships is {}",
                                ships->string())}});
  }
  std::string text = read_file_limited(file);
  if (is_gzip(text)) {
    // Profiles and records are: it is one of those that was meant for something else.
    Diagnostics diagnostics;
    if (!refuse_other_kind(read_possibly_compressed(file), file, FileKind::scenario, diagnostics))
      diagnostics.error({file}, "is compressed: a scenario is plain text");
    diagnostics.throw_errors();
  }
  return {std::move(text), file};
}

std::string scenario_name(const ScenarioSource& source) {
  return data_name(source.file);
}

Scenario scenario_from(const ScenarioSource& source, const Overrides& settings) {
  return scenario_from(source, settings, Catalog(data_directories()));
}

Scenario scenario_from(const ScenarioSource& source, const Overrides& settings, const Catalog& catalog) {
  Diagnostics diagnostics;
  std::optional<Scenario> scenario = parse_scenario(source.text, source.file, catalog, settings, diagnostics);
  diagnostics.throw_errors();
  return std::move(*scenario);
}

std::vector<Scenario> read_scenarios(const std::vector<std::string>& files,
                                     const PredictingOptions& options) {
  if (std::count(files.begin(), files.end(), "-") > 1) {
    throw Error(ErrorKind::input, "standard input (-) can be read once only");
  }
  const Overrides settings = settings_of(options);
  std::vector<Scenario> scenarios;
  Diagnostics diagnostics;
  for (const std::string& file : files) {
    try {
      scenarios.push_back(scenario_from(read_source(file), settings));
    } catch (const Error& wrong) {
      for (const Diagnostic& finding : wrong.diagnostics()) diagnostics.error(finding.where, finding.what);
    }
  }
  diagnostics.throw_errors();
  return scenarios;
}

}  // namespace foretrain::app

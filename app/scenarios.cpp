#include "app/scenarios.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "app/data_directories.hpp"
#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/document.hpp"
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

std::vector<std::string> settings_of(const PredictingOptions& options) {
  std::vector<std::string> settings = options.settings;
  if (options.profiles.empty()) return settings;
  std::string names;
  for (const std::string& profile : options.profiles) {
    const std::string name = looks_like_path(profile) ? std::filesystem::absolute(profile).string() : profile;
    std::string quoted = "'";
    for (const char c : name) quoted += c == '\'' ? "''" : std::string(1, c);
    names += (names.empty() ? "" : ", ") + quoted + '\'';
  }
  settings.push_back(options.profiles.size() == 1 ? "profile=" + names : "profile=[" + names + ']');
  return settings;
}

std::vector<Scenario> read_scenarios(const std::vector<std::string>& files,
                                     const PredictingOptions& options) {
  if (std::count(files.begin(), files.end(), "-") > 1) {
    throw Error(ErrorKind::input, "standard input (-) can be read once only");
  }
  const Catalog catalog(data_directories());
  const std::vector<std::string> settings = settings_of(options);
  std::vector<Scenario> scenarios;
  Diagnostics diagnostics;
  for (const std::string& file : files) {
    try {
      const bool is_standard_input = file == "-";
      const std::string text = is_standard_input ? standard_input() : read_file_limited(file);
      auto scenario =
          parse_scenario(text, is_standard_input ? "standard-input" : file, catalog, settings, diagnostics);
      if (scenario) scenarios.push_back(std::move(*scenario));
    } catch (const Error& unreadable) {
      for (const Diagnostic& finding : unreadable.diagnostics())
        diagnostics.error(finding.where, finding.what);
    }
  }
  diagnostics.throw_errors();
  return scenarios;
}

}  // namespace foretrain::app

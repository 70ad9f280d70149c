#include "app/overwriting.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "app/data_directories.hpp"
#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/document.hpp"

namespace foretrain::app {
namespace {

namespace fs = std::filesystem;

constexpr std::array outputs{"--json",       "--csv",   "--trace",          "--report", "--out",
                             "--checkpoint", "--curve", "--validate-parts", "--draw"};
// Of these no two are one file.
constexpr std::array separate{"--json", "--csv", "--trace", "--report", "--out", "--validate-parts"};
constexpr std::array inputs{"--profile", "--costs-from", "--topology", "--model"};
constexpr std::array settings{"--set", "--vary", "--zip"};

template <typename Names>
bool is_one_of(const CLI::Option& option, const Names& names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return option.check_name(name); });
}

// Targets that are the same file, whatever they are called.
std::string identity_of(const std::string& target) {
  if (target == "-" || target == "/dev/stdout") return "standard output";
  std::error_code error;
  const fs::path real = fs::weakly_canonical(target, error);
  return error ? target : real.string();
}

void refuse_equal_targets(const CLI::App& command) {
  std::map<std::string, std::string> taken;
  for (const CLI::Option* option : command.get_options()) {
    if (!is_one_of(*option, separate)) continue;
    for (const std::string& target : option->results()) {
      if (target.empty() || target == "/dev/null") continue;
      const auto [earlier, is_new] = taken.emplace(identity_of(target), option->get_name());
      if (!is_new)
        throw Error(ErrorKind::input, fmt::format("{} and {} both write to {}", earlier->second,
                                                  option->get_name(), earlier->first));
    }
  }
}

class FilesRead {
 public:
  FilesRead() : catalog_(data_directories()) {}

  // A file, or the name of one that ships.
  void add_name(const std::string& name) {
    add(name, name);
    for (const DataKind kind : {DataKind::model, DataKind::topology, DataKind::profile, DataKind::scenario})
      if (const auto file = catalog_.find(kind, name))
        add(*file, fmt::format("{} '{}'", name_of(kind), name));
  }

  void add(const fs::path& file, const std::string& shown) {
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    if (!error && fs::is_regular_file(real, error)) shown_.emplace(real.string(), shown);
  }

  // What it names stands beside it.
  void add_scenario(const std::string& file) {
    const std::string ending = fs::path(file).extension().string();
    if (ending != ".yaml" && ending != ".yml") return;
    Diagnostics passed_over;  // the verb that reads it says what is wrong
    try {
      if (const auto root = read_document(file, passed_over)) add_named(*root, file);
    } catch (const Error&) {
    }
  }

  // PATH=VALUE, or several values: what they name is the caller's.
  void add_setting(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return;
    Diagnostics passed_over;
    const auto values = parse_document('[' + text.substr(equals + 1) + ']', "", passed_over);
    if (values) add_named(*values, "");
  }

  // How the input was named that is the same file; null where none is.
  const std::string* same_as(const std::string& target) const {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(target, error);
    const auto found = error ? shown_.end() : shown_.find(real.string());
    return found == shown_.end() ? nullptr : &found->second;
  }

 private:
  void add_named(const Value& root, const std::string& file) {
    std::vector<const Value*> open{&root};
    while (!open.empty()) {
      const Value* value = open.back();
      open.pop_back();
      if (value->is_scalar() && !value->text.empty()) {
        add(fs::path(file).parent_path() / value->text,
            file.empty() ? value->text : fmt::format("{} of {}", value->text, file));
        if (names_seen_.insert(value->text).second) add_name(value->text);
      }
      for (const Value& item : value->items) open.push_back(&item);
      for (const Member& member : value->members) open.push_back(&member.value);
    }
  }

  Catalog catalog_;
  std::map<std::string, std::string> shown_;  // canonical name to the name that was given
  std::set<std::string> names_seen_;
};

}  // namespace

void refuse_outputs_over_inputs(const Verb& verb, const CLI::App& command) {
  std::vector<const CLI::Option*> targets;
  for (const CLI::Option* option : command.get_options())
    if (is_one_of(*option, outputs) && option->count() > 0) targets.push_back(option);
  if (targets.empty()) return;
  refuse_equal_targets(command);
  FilesRead read;
  for (const CLI::Option* option : command.get_options()) {
    const bool sets = is_one_of(*option, settings);
    if (!sets && !option->get_positional() && !is_one_of(*option, inputs)) continue;
    for (const std::string& name : option->results()) {
      if (sets) {
        read.add_setting(name);
      } else {
        read.add_name(name);
        read.add_scenario(name);
      }
    }
  }
  for (const CLI::Option* option : targets) {
    for (const std::string& name : option->results()) {
      if (const std::string* input = read.same_as(name)) {
        throw Error(ErrorKind::input, fmt::format("{}: {} {} would overwrite {}, which is read", verb.name,
                                                  option->get_name(), name, *input));
      }
    }
  }
}

}  // namespace foretrain::app

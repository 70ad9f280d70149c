#include "app/overwriting.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/input/catalog.hpp"
#include "sim/input/document.hpp"

namespace foretrain::app {
namespace {

namespace fs = std::filesystem;

constexpr std::array outputs{"--json", "--csv", "--trace", "--report", "--out", "--checkpoint", "--curve"};
constexpr std::array inputs{"--profile", "--costs-from"};

template <typename Names>
bool is_one_of(const CLI::Option& option, const Names& names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return option.check_name(name); });
}

class FilesRead {
 public:
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
      if (value->is_scalar() && !value->text.empty())
        add(fs::path(file).parent_path() / value->text, fmt::format("{} of {}", value->text, file));
      for (const Value& item : value->items) open.push_back(&item);
      for (const Member& member : value->members) open.push_back(&member.value);
    }
  }

  std::map<std::string, std::string> shown_;  // canonical name to the name that was given
};

}  // namespace

void refuse_outputs_over_inputs(const Verb& verb, const CLI::App& command) {
  std::vector<const CLI::Option*> targets;
  for (const CLI::Option* option : command.get_options())
    if (is_one_of(*option, outputs) && option->count() > 0) targets.push_back(option);
  if (targets.empty()) return;
  FilesRead read;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional() && !is_one_of(*option, inputs)) continue;
    for (const std::string& name : option->results()) {
      read.add(name, name);
      read.add_scenario(name);
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

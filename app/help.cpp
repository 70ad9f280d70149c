#include "app/help.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>

#include "app/data_directories.hpp"

namespace foretrain::app {
namespace {

constexpr std::size_t line_width = 80;
constexpr std::size_t text_column = 28;

// "  left" and, from the text column on, `text` wrapped at words.
std::string entry(const std::string& left, const std::string& text) {
  std::string out = "  " + left;
  std::size_t column = out.size();
  if (column + 2 > text_column) {
    out += '\n';
    column = 0;
  }
  out.append(text_column - column, ' ');
  column = text_column;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const bool first = column == text_column;
    if (!first && column + 1 + (end - at) > line_width) {
      out += '\n' + std::string(text_column, ' ');
      column = text_column;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out.append(text, at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out + '\n';
}

std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
  const std::string value = option.get_type_name();
  return option.get_items_expected_max() > 0 && !value.empty() ? names + ' ' + value : names;
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

std::string program_help() {
  std::string out =
      "foretrain: see a training run before you run it\n\n"
      "usage: foretrain VERB [ARGUMENTS...]\n\n";
  std::string missing;
  for (const Verb& verb : verbs()) {
    if (verb.prepare != nullptr) {
      out += entry(verb.name, verb.summary);
    } else {
      missing += (missing.empty() ? "" : ", ") + std::string(verb.name);
    }
  }
  out += '\n' + entry("VERB --help", "the options of a verb");
  out += entry("--version", "version, build and data folders");
  if (!missing.empty()) out += '\n' + entry("not built yet", missing);
  return out;
}

std::string verb_help(const Verb& verb, const CLI::App& command) {
  std::string out =
      fmt::format("usage: foretrain {} {} [OPTIONS]\n\n{}\n", verb.name, verb.arguments, verb.summary);
  std::string positionals, options;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->nonpositional()) {
      options += entry(names_of(*option), option->get_description());
    } else {
      positionals += entry(option->get_name(true), option->get_description());
    }
  }
  if (!positionals.empty()) out += '\n' + positionals;
  return out + '\n' + options;
}

std::string version_text() {
  utsname system{};
  ::uname(&system);
  std::string out =
      fmt::format("foretrain {}\nbuild: {}, C++{}, {}, {} {}\n", FORETRAIN_VERSION, compiler(),
                  __cplusplus / 100 % 100, FORETRAIN_BUILD_TYPE, system.sysname, system.machine);
  out += fmt::format("libraries: CLI11 {}, fmt {}.{}.{}\n", CLI11_VERSION, FMT_VERSION / 10000,
                     FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  const auto folders = data_directories();
  if (folders.empty()) out += "data: none found; name its folder in FORETRAIN_DATA\n";
  for (const auto& folder : folders) out += "data: " + folder.string() + '\n';
  return out;
}

}  // namespace foretrain::app

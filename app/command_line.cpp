#include "app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/help.hpp"
#include "app/messages.hpp"
#include "app/overwriting.hpp"
#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/base/spelling.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

const Verb& find_verb(const std::string& name) {
  if (name.starts_with("-")) {
    throw Error(ErrorKind::input,
                fmt::format("unknown option '{}': options follow the verb, as in 'foretrain "
                            "simulate FILE --json -'; see 'foretrain --help'",
                            name));
  }
  for (const Verb& verb : verbs()) {
    if (name != verb.name) continue;
    if (verb.prepare == nullptr) {
      throw Error(ErrorKind::input, fmt::format("'{}' is not built yet; see 'foretrain --help'", name));
    }
    return verb;
  }
  throw Error(ErrorKind::input, fmt::format("unknown verb '{}'{}; see 'foretrain --help'", name,
                                            did_you_mean(name, names_of_verbs())));
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// CLI11 would take the value of a mistyped option for a positional argument, so all unknown ones are found
// first.
void refuse_unknown_options(const Verb& verb, const CLI::App& command,
                            const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = names_of_options(command);
  std::vector<Diagnostic> findings;
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (!argument.starts_with("--")) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    findings.push_back({{},
                        fmt::format("{}: unknown option '{}'{}; see 'foretrain {} --help'", verb.name, name,
                                    did_you_mean(name, known), verb.name)});
  }
  if (!findings.empty()) throw Error(std::move(findings));
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    throw Error(ErrorKind::input, "name a verb: 'foretrain --help' lists them");
  }
  if (arguments[0] == "--help" || arguments[0] == "-h" || (arguments[0] == "help" && arguments.size() == 1)) {
    write_file("-", program_help());
    return 0;
  }
  if (arguments[0] == "--version") {
    write_file("-", version_text());
    return 0;
  }
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  std::string name = arguments[0];
  if (name == "help") {
    name = rest[0];
    rest = {"--help"};
  }
  const Verb& verb = find_verb(name);
  CLI::App command(verb.summary, verb.name);
  CommonOptions common;
  const Action action = declare_options(verb, command, common);
  refuse_unknown_options(verb, command, rest);
  std::reverse(rest.begin(), rest.end());  // CLI11 takes them from the back
  try {
    command.parse(rest);
  } catch (const CLI::CallForHelp&) {
    write_file("-", verb_help(verb, command));
    return 0;
  } catch (const CLI::ParseError& wrong) {
    throw Error(ErrorKind::input,
                fmt::format("{}: {}; see 'foretrain {} --help'", verb.name, wrong.what(), verb.name));
  }
  refuse_outputs_over_inputs(verb, command);
  if (common.quiet && common.verbose)
    throw Error(ErrorKind::input, fmt::format("{}: give -q or -v, not both", verb.name));
  set_verbosity(common.quiet ? Verbosity::quiet : common.verbose ? Verbosity::verbose : Verbosity::normal);
  return action();
}

}  // namespace foretrain::app

// What shells complete and `man` shows, made from the verbs' own options, so that neither can differ from
// --help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/verb.hpp"
#include "sim/base/error.hpp"
#include "sim/base/spelling.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

struct OptionText {
  std::string name;   // "--json"
  std::string value;  // "FILE|-"; empty where it takes none
  std::string what;
};

struct VerbText {
  const Verb* verb = nullptr;
  std::vector<OptionText> options, positionals;
};

std::vector<VerbText> described_verbs() {
  std::vector<VerbText> all;
  for (const Verb& verb : verbs()) {
    if (verb.prepare == nullptr) continue;
    CLI::App command(verb.summary, verb.name);
    CommonOptions common;
    declare_options(verb, command, common);
    VerbText& text = all.emplace_back();
    text.verb = &verb;
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_group().empty()) continue;
      const std::string value =
          option->get_items_expected_max() > 0 ? option->get_type_name() : std::string();
      if (!option->nonpositional()) {
        text.positionals.push_back({option->get_name(true), "", option->get_description()});
        continue;
      }
      for (const std::string& name : option->get_snames())
        text.options.push_back({'-' + name, value, option->get_description()});
      for (const std::string& name : option->get_lnames())
        text.options.push_back({"--" + name, value, option->get_description()});
    }
  }
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> option_names(const VerbText& text) {
  std::vector<std::string> names;
  for (const OptionText& option : text.options) names.push_back(option.name);
  return names;
}

// The words that a verb takes in place of files.
const char* words_of(const std::string& verb) {
  return verb == "list"         ? "models topologies profiles scenarios"
         : verb == "completion" ? "bash zsh man"
         : verb == "import"     ? "kineto nccl-tests topo-m nccl-xml steps tensorboard onnx"
         : verb == "collective" ? "all_reduce reduce_scatter all_gather broadcast reduce all_to_all send_recv"
                                : "";
}

std::string bash_completion() {
  std::string out =
      "# bash completion of foretrain; made by `foretrain completion bash`\n"
      "_foretrain() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options='' words=''\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  std::vector<std::string> names = names_of_verbs();
  names.insert(names.end(), {"help", "--help", "--version"});
  out += fmt::format("    COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n    return\n  fi\n", joined(names));
  out +=
      "  case $before in\n"
      "    --profile) words=$(foretrain list profiles -q 2>/dev/null | cut -d ' ' -f 1) ;;\n"
      "    --topology) words=$(foretrain list topologies -q 2>/dev/null | cut -d ' ' -f 1) ;;\n"
      "    --model) words=$(foretrain list models -q 2>/dev/null | cut -d ' ' -f 1) ;;\n"
      "  esac\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const VerbText& text : described_verbs()) {
    const std::string own = words_of(text.verb->name);
    out += fmt::format("    {}) options='{}'", text.verb->name, joined(option_names(text)));
    if (!own.empty()) out += fmt::format("; [ \"$COMP_CWORD\" -ne 2 ] || words='{}'", own);
    out += " ;;\n";
  }
  return out +
         "  esac\n"
         "  case $word in\n"
         "    -*) words=$options ;;\n"
         "  esac\n"
         "  if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); fi\n"
         "}\n"
         "complete -o default -F _foretrain foretrain\n";
}

// Within single quotes and brackets of a specification of _arguments.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      out += std::string("\\") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string zsh_completion() {
  std::string out =
      "#compdef foretrain\n"
      "# zsh completion of foretrain; made by `foretrain completion zsh`\n"
      "_foretrain() {\n"
      "  local -a verbs\n"
      "  verbs=(\n";
  const std::vector<VerbText> all = described_verbs();
  for (const VerbText& text : all)
    out += fmt::format("    '{}:{}'\n", text.verb->name, zsh_text(text.verb->summary));
  out +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe verb verbs\n"
      "    return\n"
      "  fi\n"
      "  case ${words[2]} in\n";
  for (const VerbText& text : all) {
    out += fmt::format("    {})\n      _arguments \\\n", text.verb->name);
    for (const OptionText& option : text.options) {
      out += fmt::format("        '*{}[{}]{}' \\\n", option.name, zsh_text(option.what),
                         option.value.empty() ? "" : ':' + zsh_text(option.value) + ":_files");
    }
    const std::string own = words_of(text.verb->name);
    out += own.empty() ? "        '*:file:_files'\n"
                       : fmt::format("        '2:word:({})' '*:file:_files'\n", own);
    out += "      ;;\n";
  }
  return out +
         "  esac\n"
         "}\n"
         "_foretrain \"$@\"\n";
}

// A hyphen in roff is a minus only where it is escaped; a line must not begin with a dot or quote.
std::string roff(const std::string& text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else {
      out += c;
    }
  }
  return out;
}

std::string manual_page() {
  std::string out = fmt::format(
      ".TH FORETRAIN 1 \"\" \"foretrain {}\" \"User Commands\"\n"
      ".SH NAME\nforetrain \\- see a training run before you run it\n"
      ".SH SYNOPSIS\n.B foretrain\n.I VERB\n[\\fIARGUMENTS\\fR...]\n"
      ".SH DESCRIPTION\n"
      "Times the kernels and collectives of the GPUs at hand once, predicts step time and scaling of "
      "training jobs "
      "on clusters that are not there, and runs the same scenario for real to hold every prediction against "
      "it.\n"
      "Scenarios, models, topologies and profiles are YAML and JSON files; their keys are printed by\n"
      ".BR \"foretrain check \\-\\-reference\" .\n"
      ".SH VERBS\n",
      FORETRAIN_VERSION);
  for (const VerbText& text : described_verbs()) {
    out += fmt::format(".SS \"foretrain {} {}\"\n{}.\n", text.verb->name, roff(text.verb->arguments),
                       roff(text.verb->summary));
    for (const OptionText& positional : text.positionals)
      out += fmt::format(".TP\n.I \"{}\"\n{}\n", roff(positional.name), roff(positional.what));
    for (const OptionText& option : text.options)
      out += fmt::format(".TP\n.B \"{}\" \\fI{}\\fR\n{}\n", roff(option.name), roff(option.value),
                         roff(option.what));
  }
  return out +
         ".SH EXIT STATUS\n"
         ".TP\n0\ndone\n"
         ".TP\n1\nit failed while running\n"
         ".TP\n2\nbad usage or bad input; nothing was written\n"
         ".TP\n3\na stated bound was missed (validate \\-\\-max\\-error)\n"
         ".TP\n4\na device, a library or a part of a profile is not there\n"
         ".SH ENVIRONMENT\n"
         ".TP\n.B FORETRAIN_DATA\nfolders with models, topologies, profiles and scenarios, before those that "
         "ship\n";
}

}  // namespace

Action prepare_completion(CLI::App& command) {
  auto kind = std::make_shared<std::string>();
  command.add_option("KIND", *kind, "bash or zsh: what the shell completes; man: the manual page")
      ->required();
  return [kind] {
    if (*kind != "bash" && *kind != "zsh" && *kind != "man") {
      throw Error(ErrorKind::input, fmt::format("completion: '{}' is unknown: allowed are bash, zsh, man{}",
                                                *kind, did_you_mean(*kind, {"bash", "zsh", "man"})));
    }
    write_file("-", *kind == "bash" ? bash_completion() : *kind == "zsh" ? zsh_completion() : manual_page());
    return 0;
  };
}

}  // namespace foretrain::app

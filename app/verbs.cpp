#include "app/verb.hpp"

#include <CLI/CLI.hpp>

namespace foretrain::app {
namespace {

constexpr Verb table[] = {
    {"simulate", "SCENARIO...", "predict; print a table and the verdict", &prepare_simulate},
    {"sweep", "SCENARIO --vary PATH=V1,V2,...", "the grid of what-ifs, one row each", &prepare_sweep},
    {"compare", "RESULT|SCENARIO...", "ratios against the first", &prepare_compare},
    {"plan", "SCENARIO --deadline 24h --budget 400USD", "the cheapest and fastest rows that fit",
     &prepare_plan},
    {"explain", "SCENARIO", "which readings the observed numbers leave open", &prepare_explain},
    {"collective", "KIND --topology NAME|FILE", "time a collective over a topology", &prepare_collective},
    {"calibrate", "--model M --batch 32,64 --out PROFILE.json", "time the local devices", &prepare_calibrate},
    {"run", "SCENARIO... --out RUN.json", "predict, train for real, measure every step", &prepare_run},
    {"validate", "RUN.json|FOLDER...", "predicted against measured, row by row", &prepare_validate},
    {"import", "KIND FILE -o OUT", "profiles, topologies and models of other tools", &prepare_import},
    {"report", "RESULT.json... -o OUT.html", "one self-contained page with plots", &prepare_report},
    {"check", "FILE...", "read any input file, show all its errors at once", &prepare_check},
    {"completion", "bash|zsh|man", "what a shell completes; the manual page", &prepare_completion},
    {"list", "[KIND]", "what ships: models, topologies, profiles, scenarios", &prepare_list},
};

}  // namespace

std::span<const Verb> verbs() {
  return table;
}

Action declare_options(const Verb& verb, CLI::App& command, CommonOptions& common) {
  command.set_help_flag("-h,--help", "this text");
  Action action = verb.prepare(command);
  command.add_flag("-q,--quiet", common.quiet, "results and errors only");
  command.add_flag("-v,--verbose", common.verbose, "say more about how the answer came about");
  return action;
}

std::vector<std::string> names_of_verbs() {
  std::vector<std::string> names;
  for (const Verb& verb : table) names.emplace_back(verb.name);
  return names;
}

}  // namespace foretrain::app

// The verbs of the program. A verb is one file in this folder and one line of the table in verbs.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foretrain::app {

// Does the verb's work after its options have been read; returns the exit status. Throws foretrain::Error.
using Action = std::function<int()>;

struct Verb {
  const char* name;
  const char* arguments;  // as the usage line shows them: "SCENARIO..."
  const char* summary;
  // Declares the verb's options on `command` and returns its action, which holds the values read. Null: the
  // verb is described in the documentation and not built yet.
  Action (*prepare)(CLI::App& command);
};

std::span<const Verb> verbs();
std::vector<std::string> names_of_verbs();

// What every verb takes.
struct CommonOptions {
  bool quiet = false, verbose = false;
};
// Declares the verb's own options and the common ones; returns its action. `common` outlives the command.
Action declare_options(const Verb& verb, CLI::App& command, CommonOptions& common);

// One function a verb, in the file of its name.
Action prepare_simulate(CLI::App& command);
Action prepare_compare(CLI::App& command);
Action prepare_report(CLI::App& command);
Action prepare_sweep(CLI::App& command);
Action prepare_plan(CLI::App& command);
Action prepare_explain(CLI::App& command);
Action prepare_collective(CLI::App& command);
Action prepare_check(CLI::App& command);
Action prepare_calibrate(CLI::App& command);
Action prepare_import(CLI::App& command);
Action prepare_list(CLI::App& command);
Action prepare_validate(CLI::App& command);
Action prepare_run(CLI::App& command);
Action prepare_completion(CLI::App& command);

}  // namespace foretrain::app

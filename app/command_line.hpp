// Reads the command line: the verb, then its options.
#pragma once

#include <string>
#include <vector>

namespace foretrain::app {

// Runs the verb that the arguments name and returns the exit status. Throws foretrain::Error.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace foretrain::app

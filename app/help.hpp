// What --help and --version print, at 80 columns.
#pragma once

#include <string>

#include "app/verb.hpp"

namespace foretrain::app {

std::string program_help();
std::string verb_help(const Verb& verb, const CLI::App& command);
std::string version_text();

}  // namespace foretrain::app

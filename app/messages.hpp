// All that the program says beside its results, on standard error, a line each.
#pragma once

#include <exception>
#include <string>

namespace foretrain::app {

enum class Verbosity { quiet, normal, verbose };
void set_verbosity(Verbosity verbosity);
Verbosity verbosity();

void error(const std::string& text);    // always shown
void warning(const std::string& text);  // not under -q
void note(const std::string& text);     // not under -q
void detail(const std::string& text);   // under -v

// One line that the next one replaces; shown where standard error is a terminal, and not under -q.
void progress(const std::string& text);
void end_progress();

// Prints what was thrown and returns the exit status that belongs to it.
int report_exception(const std::exception& thrown);

}  // namespace foretrain::app

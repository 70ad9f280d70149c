#include "app/messages.hpp"

#include <unistd.h>

#include <cstdio>
#include <new>

#include "app/terminal.hpp"
#include "sim/base/error.hpp"

namespace foretrain::app {
namespace {

Verbosity current = Verbosity::normal;
bool progress_shown = false;

void print(const char* kind, const std::string& text) {
  end_progress();
  // A message is one line whatever it quotes.
  std::string line = kind + text;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  line += '\n';
  std::fputs(line.c_str(), stderr);
}

}  // namespace

void set_verbosity(Verbosity verbosity) {
  current = verbosity;
}
Verbosity verbosity() {
  return current;
}

void error(const std::string& text) {
  print("foretrain: ", text);
}
void warning(const std::string& text) {
  if (current != Verbosity::quiet) print("foretrain: warning: ", text);
}
void note(const std::string& text) {
  if (current != Verbosity::quiet) print("foretrain: ", text);
}
void detail(const std::string& text) {
  if (current == Verbosity::verbose) print("foretrain: ", text);
}

void progress(const std::string& text) {
  if (current == Verbosity::quiet || !is_terminal(STDERR_FILENO)) return;
  std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
  std::fflush(stderr);
  progress_shown = true;
}

void end_progress() {
  if (!progress_shown) return;
  std::fputs("\r\x1b[K", stderr);
  progress_shown = false;
}

int report_exception(const std::exception& thrown) {
  if (const auto* known = dynamic_cast<const Error*>(&thrown)) {
    for (const Diagnostic& finding : known->diagnostics()) {
      // A place comes first in its line, so that editors find it.
      print(finding.where.file.empty() ? "foretrain: " : "", finding.text());
    }
    return static_cast<int>(known->kind());
  }
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
    error("out of memory");
  } else {
    error(std::string("internal error: ") + thrown.what());
  }
  return static_cast<int>(ErrorKind::failure);
}

}  // namespace foretrain::app

// One error type for the whole project. Libraries throw it; only app/ prints it and turns it into an exit
// status.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace foretrain {

// What went wrong, as the exit status of the program tells it (docs: exit status 1, 2, 3, 4).
enum class ErrorKind {
  failure = 1,      // it failed while running: disk full, a peer died, an overflow
  input = 2,        // bad usage or bad input
  bound = 3,        // a stated bound was missed
  unavailable = 4,  // a device, a library or a part of a profile is not there
};

// A place in an input file; line and column count from 1, 0 means "not known".
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
};

// One finding: where, what is wrong, and what to do about it.
struct Diagnostic {
  SourceLocation where;
  std::string what;

  // "file:line:column: what", without the parts that are not known.
  std::string text() const;
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind error_kind, std::string what);
  // All the findings of one reading; what() holds one line each.
  explicit Error(std::vector<Diagnostic> findings, ErrorKind error_kind = ErrorKind::input);

  ErrorKind kind() const { return kind_; }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  ErrorKind kind_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace foretrain

// Collects what is wrong with input files, so that all errors are reported and not only the first.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.hpp"

namespace foretrain {

class Diagnostics {
 public:
  // The same finding at the same place is kept once.
  void error(SourceLocation where, std::string what);
  // Hints on values that are allowed and implausible.
  void warning(SourceLocation where, std::string what);

  // What a file's patterns stand for, for `foretrain check`.
  void note(SourceLocation where, std::string what);

  // The findings that an Error holds.
  void add(const Error& error);

  bool ok() const { return errors_.empty(); }
  std::size_t error_count() const { return errors_.size(); }
  // Sorted by file (in the order of first mention), line and column.
  std::vector<Diagnostic> errors() const;
  std::vector<Diagnostic> warnings() const;
  std::vector<Diagnostic> notes() const;
  // Takes over the findings of another collector.
  void merge(const Diagnostics& other);
  // Throws one Error of kind input with all errors where there are any.
  void throw_errors() const;

 private:
  std::vector<Diagnostic> errors_;
  std::vector<Diagnostic> warnings_;
  std::vector<Diagnostic> notes_;
};

}  // namespace foretrain

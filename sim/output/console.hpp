// Results for a person at a terminal.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/output/result.hpp"
#include "sim/output/text_layout.hpp"
#include "sim/output/validation_summary.hpp"

namespace foretrain {

// What stands before the other columns, in place of the scenario's name: the values of a sweep.
struct RowLabels {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;  // one a result
};

struct ConsoleOptions {
  TextStyle style;
  bool details = false;  // where the time, the bytes and the memory go, for several results too
  std::optional<ValidationSummary> validation;
  RowLabels labels;                // none: the names of the scenarios
  std::vector<std::string> names;  // of the results in sentences; none: of the scenarios
};

// One table with a line a result; for a single one where its time goes; then what limits each and what to do.
std::string console_text(std::span<const Result> results, const ConsoleOptions& options);

// What was extrapolated and what is warned of, each sentence once, with the names of the results that have
// it.
std::string caveats_text(std::span<const Result> results, std::span<const std::string> names,
                         const TextStyle& style);

}  // namespace foretrain

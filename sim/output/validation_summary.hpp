// How far predictions were off when they were last held against measurements: what validation/ says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace foretrain {

struct ErrorFigures {
  std::int64_t rows = 0;
  double mean_abs_error = 0, max_abs_error = 0;  // fractions
};

struct ValidationSummary : ErrorFigures {
  std::map<std::string, ErrorFigures> kinds;  // by Result::kind
};

// Over all files of schema foretrain/validation/1 below the first of the folders that holds any: rows add up,
// means are weighted by rows, in all and a kind. A file that cannot be read is left out and named in
// `unreadable`. None where nothing is validated.
std::optional<ValidationSummary> read_validation_summary(const std::vector<std::filesystem::path>& folders,
                                                         std::vector<std::string>& unreadable);

}  // namespace foretrain

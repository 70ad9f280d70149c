// Reads back what write_json has written: results for comparing and for reports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/output/result.hpp"

namespace foretrain {

// The results of a JSON text: one object, an array, or the `rows` of a sweep. `file` is the name that
// messages show. Throws Error(input) where the text is no JSON, has another schema, or lacks a member.
std::vector<Result> read_results(std::string_view text, const std::string& file);

// As above; of the part of a divided sweep also which points of the whole grid they are.
struct ReadResults {
  std::string file;
  std::vector<Result> results;
  std::vector<std::size_t> points;  // empty: no part
  std::size_t of = 0;               // points of the whole grid
};
ReadResults read_results_of(std::string_view text, const std::string& file);

// Parts of one grid in the order of its points, a point that several have once; what is no part stays where
// it is. A line for each grid of which points are missing.
std::vector<Result> joined_results(std::vector<ReadResults> files, std::vector<std::string>& notes);

}  // namespace foretrain

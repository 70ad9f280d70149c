// Results as comma-separated values (RFC 4180, lines ended by a line feed): a row a result.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// Columns are the scalar members of the JSON object by their path ("step.time_s"), always all of them and in
// the same order; a cell is empty where JSON has null. Of lists stands their length.
void write_csv(std::span<const Result> results, const TextSink& sink);

// The same line by line: the columns are found once.
class CsvLines {
 public:
  CsvLines();
  std::string heading() const;
  std::string line_of(const Result& result) const;

 private:
  std::vector<std::string> columns_;
};

// The cells of one result by their column, as write_csv writes them.
using CsvRow = std::vector<std::pair<std::string, std::string>>;
CsvRow csv_row(const Result& result);

// A cell, quoted where it has to be.
std::string csv_cell(std::string_view text);

}  // namespace foretrain

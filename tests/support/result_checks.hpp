// What holds of every result, whatever the scenario.
#pragma once

#include <span>

#include "sim/output/result.hpp"

namespace foretrain::test {

// Column by column CSV is what JSON is member by member.
void check_csv_against_json(std::span<const Result> results);

// JSON has the schema's members and sums; fractions, intervals and quantiles are what they are called; the
// table shows the step that JSON holds.
void check_result_itself(const Result& result);

}  // namespace foretrain::test

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

}  // namespace foretrain

// Whether a JSON text is a result of this program: the members and their types are those that the JSON writer
// writes.
#pragma once

#include <string>
#include <string_view>

#include "sim/input/diagnostics.hpp"

namespace foretrain {

// One result, or an array of them. Unknown, missing and mistyped members, and parts that do not sum to their
// whole, are findings with the JSON pointer. Returns the number of results.
int check_result(std::string_view json, const std::string& file, Diagnostics& diagnostics);

}  // namespace foretrain

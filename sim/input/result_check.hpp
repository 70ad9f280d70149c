// Whether a JSON text is a result of this program: the members and their types are those that the JSON writer
// writes.
#pragma once

#include <string>
#include <string_view>

#include "sim/input/diagnostics.hpp"

namespace foretrain {

// The parts of the median step sum to it, in seconds, and it is not negative; `pointer` is that of the
// result.
void check_step_sum(double sum, double whole, const std::string& pointer, const std::string& file,
                    Diagnostics& diagnostics);

// One result, an array of them, or a sweep with its `rows`. Unknown, missing and mistyped members, and parts
// that do not sum to their whole, are findings with the JSON pointer. Returns the number of results.
int check_result(std::string_view json, const std::string& file, Diagnostics& diagnostics);

}  // namespace foretrain

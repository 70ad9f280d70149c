// What the ranks do when inside a step, as a part of the HTML report.
#pragma once

#include <string>

#include "sim/output/timeline.hpp"

namespace foretrain {

// A few ranks, the first ones and the last, a bar for each of their streams; with the numbers as a table.
// Empty where the timeline is.
std::string html_timeline(const Timeline& timeline);

}  // namespace foretrain

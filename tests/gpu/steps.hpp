// Times whole steps of the shipped models on the first GPU, to hold against other programs in the same go.
#pragma once

#include <string>
#include <vector>

namespace foretrain::test {

// Each argument is MODEL:BATCH[:PRECISION]; prints a line each, and with --parts the time of each kind of
// item.
int time_steps(const std::vector<std::string>& arguments);

}  // namespace foretrain::test

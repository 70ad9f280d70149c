// Jobs on the page.
#pragma once

#include <span>
#include <string>

#include "sim/output/result.hpp"

namespace foretrain {

// Charts over the results that have a job: batch and learning rate over epochs, the curve's value over epochs
// and over hours; a table of the jobs. Empty where none has one.
std::string html_jobs(std::span<const Result> results);

}  // namespace foretrain

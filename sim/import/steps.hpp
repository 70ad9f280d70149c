// A CSV of batch and seconds -> a step-time profile.
#pragma once

#include "sim/import/importer.hpp"

namespace foretrain {

// Columns by their names (batch; seconds, time, step, ... with a unit in the name or in the cell; a standard
// deviation), or, without a head, the first two: batch and seconds. Separated by commas, semicolons or tabs.
// A batch measured several times becomes its median and that median's standard error. All wrong lines are
// findings of one Error(input). JSON where the target's name ends in .json, else YAML.
Imported import_steps(std::string_view csv, const ImportOptions& options);

}  // namespace foretrain

// Event files of TensorBoard -> a step-time profile, or a curve of loss or accuracy.
#pragma once

#include "sim/import/importer.hpp"

namespace foretrain {

// A target that ends in .csv gets the curve of one scalar over updates (options.tag; else the first whose
// name holds loss, then accuracy). Any other gets a step-time profile at options.batch from the wall times of
// the steps: their median; what lies far above it (evaluation, checkpoints) is told apart, with its period
// and length, in the file's comments. Damaged records are left out and noted. Throws Error(input).
Imported import_tensorboard(std::string_view bytes, const ImportOptions& options);

}  // namespace foretrain

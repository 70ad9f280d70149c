// No result may be written over a file that is read.
#pragma once

#include "app/verb.hpp"

namespace foretrain::app {

// Throws Error(input) where an option of `command` names a target that is one of its inputs, or a file that
// one of its scenarios names: by canonical names, so that links and ./ are seen through.
void refuse_outputs_over_inputs(const Verb& verb, const CLI::App& command);

}  // namespace foretrain::app

// No result may be written over a file that is read.
#pragma once

#include "app/verb.hpp"

namespace foretrain::app {

// Throws Error(input) where an option of `command` names a target that is one of its inputs, a file that one
// of its scenarios or a --set names, or another option's target: by canonical names, so that links and ./ are
// seen through, and names of what ships as well.
void refuse_outputs_over_inputs(const Verb& verb, const CLI::App& command);

}  // namespace foretrain::app

// Keys that a command line sets in place of a scenario's.
#pragma once

#include <string>
#include <vector>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"

namespace foretrain {

// "PATH=VALUE", one after the other. Of keys that exclude each other (batch.per_worker and batch.global,
// those of different fusions) a new one takes the place of the scenario's; where it would undo another
// override it is an error, since a row of a sweep would be called by a value that it does not have.
void apply_overrides(Value& root, const std::vector<std::string>& overrides, Diagnostics& diagnostics);

}  // namespace foretrain

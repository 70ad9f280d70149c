// The map under `optimizer:` of a model or a scenario -> Optimizer.
#pragma once

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/training/model.hpp"

namespace foretrain {

// `map` has been checked against optimizer_schema(); keys that do not belong to its kind are findings. Where
// it names the kind of `base`, keys that it does not give are taken from there.
Optimizer read_optimizer(const Value& map, const Optimizer& base, Diagnostics& diagnostics);

}  // namespace foretrain

// A model file or an inline model of a scenario -> Model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/training/model.hpp"

namespace foretrain {

// `root` is the document of a file in models/ or the map under a scenario's `model:` (then it may be a mere
// `{ parameters: 60880896 }`). `sequence` takes the place of the model's own length, where it has one. Null
// where an error was found.
std::shared_ptr<const Model> read_model(const Value& root, Diagnostics& diagnostics,
                                        std::optional<std::int64_t> sequence = std::nullopt);

}  // namespace foretrain

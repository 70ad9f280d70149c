// The list of values that a scenario rests on, each given in a file or a default of its table.
#pragma once

#include <string>
#include <vector>

#include "sim/input/document.hpp"
#include "sim/input/scenario.hpp"
#include "sim/input/schema.hpp"

namespace foretrain {

// A value as YAML in one line: "[32, 71 ms]", "{ samples: 50000 }".
std::string one_line(const Value& value);

// Adds what stands in the map by path ("cluster.network.bandwidth"), and the defaults of keys that do not.
// A null map has defaults alone.
void add_inputs(const std::string& path, const Value* map, const Schema& schema,
                std::vector<ResolvedInput>& inputs);

// Adds every value below, without a table.
void add_given(const std::string& path, const Value& value, std::vector<ResolvedInput>& inputs);

}  // namespace foretrain

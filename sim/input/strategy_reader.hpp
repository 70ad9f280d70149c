// The map of data parallelism under `strategy:` -> Strategy.
#pragma once

#include <string_view>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"
#include "sim/input/scenario.hpp"

namespace foretrain {

// `data` has been checked against data_parallel_schema(), or is null; `workers`: 0 where the cluster is
// wrong. Keys of another fusion than the chosen one are findings.
Strategy read_strategy(const Value* data, std::int64_t workers, Diagnostics& diagnostics);

// Removes from the map what a new value of `key` takes the place of: keys of another fusion.
void make_room(Value& data, std::string_view key, std::string_view value);

// What the strategy rests on: keys as given, and the defaults that its fusion uses.
void add_strategy_inputs(const Value* data, const Strategy& strategy, std::vector<ResolvedInput>& inputs);

}  // namespace foretrain

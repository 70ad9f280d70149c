// Tables of the keys under `strategy:`.
#pragma once

#include "sim/input/schema.hpp"

namespace foretrain {

const Schema& strategy_schema();       // `strategy: { data: { ... } }`
const Schema& data_parallel_schema();  // under `strategy.data`, or in its place
// Kinds of parallelism that we know and do not model, with what comes nearest.
const std::vector<NotModelled>& other_parallelism();

}  // namespace foretrain

// The result as JSON, schema foretrain/result/1.
#pragma once

#include <span>

#include "sim/output/json_writer.hpp"
#include "sim/output/result.hpp"

namespace foretrain {

// One object for one result, an array for several.
void write_json(std::span<const Result> results, const TextSink& sink);

// The members of the object, for those who put it into another.
void write_result_members(const Result& result, JsonWriter& writer);

}  // namespace foretrain

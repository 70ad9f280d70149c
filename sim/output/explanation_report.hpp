// An explanation for a person and as JSON.
#pragma once

#include <string>

#include "sim/job/explain.hpp"
#include "sim/output/json_writer.hpp"
#include "sim/output/text_layout.hpp"

namespace foretrain {

std::string explanation_text(const Explanation& explanation, const TextStyle& style);
// "schema": "foretrain/explanation/1".
void write_explanation_json(const Explanation& explanation, const TextSink& sink);

}  // namespace foretrain

// A plan for a person and as JSON.
#pragma once

#include <string>

#include "sim/job/plan.hpp"
#include "sim/output/json_writer.hpp"
#include "sim/output/text_layout.hpp"

namespace foretrain {

std::string plan_text(const Plan& plan, const TextStyle& style);
// "schema": "foretrain/plan/1".
void write_plan_json(const Plan& plan, const TextSink& sink);

}  // namespace foretrain

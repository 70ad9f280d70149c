// Tables of the keys of a scenario.
#pragma once

#include "sim/input/schema.hpp"

namespace foretrain {

const Schema& scenario_schema();
const Schema& batch_schema();
const Schema& step_profile_schema();  // under `profile:`: a step-time profile
const Schema& job_schema();
const Schema& schedule_rule_schema();   // `schedule:` as a map
const Schema& schedule_phase_schema();  // an item of `schedule:` as a list

}  // namespace foretrain

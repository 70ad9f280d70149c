// Tables of the keys of a scenario.
#pragma once

#include "sim/input/schema.hpp"

namespace foretrain {

const Schema& scenario_schema();
const Schema& sequence_schema();  // under `sequence:`: unequal lengths
const Schema& other_job_schema();
const Schema& ranks_schema();
const Schema& batch_schema();
const Schema& step_profile_schema();  // under `profile:`: a step-time profile

}  // namespace foretrain

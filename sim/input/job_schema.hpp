// Tables of the keys of a scenario's job, and of what surrounds its steps.
#pragma once

#include "sim/input/schema.hpp"

namespace foretrain {

const Schema& dataset_schema();
const Schema& input_schema();
const Schema& host_schema();
const Schema& observed_schema();
const Schema& job_schema();
const Schema& evaluate_schema();
const Schema& checkpoint_schema();
const Schema& log_schema();
const Schema& failures_schema();
const Schema& warmup_schema();
const Schema& price_schema();    // `price:` as a map
const Schema& workers_schema();  // `workers:` of the job, as a map
const Schema& learning_rate_schema();
const Schema& samples_schema();
const Schema& target_schema();
const Schema& baseline_schema();
const Schema& schedule_rule_schema();   // `schedule:` as a map
const Schema& schedule_phase_schema();  // an item of `schedule:` as a list

}  // namespace foretrain

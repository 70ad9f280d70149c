// Scenarios in memory, for tests that need no file.
#pragma once

#include "sim/input/scenario.hpp"

namespace foretrain::test {

// `workers` on one node, a model of tests/support/models.hpp, fp32, without profile or job.
Scenario made_scenario(const Model& model, StrategyKind strategy, int workers, std::int64_t batch_per_worker);

}  // namespace foretrain::test

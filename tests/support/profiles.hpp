// Profiles for tests with times made by a rule, so that expected steps can be worked out by hand.
#pragma once

#include <vector>

#include "sim/training/model.hpp"
#include "sim/training/profile.hpp"

namespace foretrain::test {

// Every layer with parameters and the loss: forward 10 us + 1 us a sample, each backward pass likewise, one
// launch of 5 us of host time each; other layers are fused away. The update takes 100 us. All-reduce on 2, 4
// and 8 ranks of one node: 20 us plus 2 (n - 1) / n x bytes over 100 GB/s.
Profile made_profile(const Model& model, const std::vector<std::int64_t>& batches);

// Layers of a model that cost time in made_profile.
int timed_layers(const Model& model);

}  // namespace foretrain::test

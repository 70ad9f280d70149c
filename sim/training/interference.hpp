// What a collective and the kernels beside it cost each other, from a profile.
#pragma once

#include <cstdint>
#include <string>

#include "sim/training/profile.hpp"

namespace foretrain {

// Where collectives run: on ranks of one node, or over a network.
struct InterferencePlace {
  int ranks = 1, nodes = 1;
  double line_rate = 0;  // bytes per second and direction of a node
};

struct Interference {
  double compute = 1;     // kernels beside the collective, over kernels alone
  double collective = 1;  // the collective beside kernels, over the collective alone
  double wait = 0;        // seconds that it begins later after a pause, since ranks wait for each other
  Origin origin = Origin::assumed;
};

// Of the entries of a node, or of those between nodes and nearest in line rate: the model's of the nearest
// precision, batch and bytes, or the median of what other models' say so; within a node its effect on kernels
// is scaled by what it is worth in a step, and ranks wait (overlap_cost() of overlap_fit.hpp). Factors below
// 1 are noise and count as 1. Where the profile has none: 1 and 1, assumed; for GPUs between nodes a fitted
// one (see the .cpp).
Interference interference_of(const Profile& profile, const std::string& model, Precision precision,
                             std::int64_t batch, std::int64_t bytes, const InterferencePlace& place);

}  // namespace foretrain

// What a collective and the kernels beside it cost each other, from a profile.
#pragma once

#include <cstdint>
#include <string>

#include "sim/training/profile.hpp"

namespace foretrain {

struct Interference {
  double compute = 1;     // kernels beside the collective, over kernels alone
  double collective = 1;  // the collective beside kernels, over the collective alone
  Origin origin = Origin::assumed;
};

// The entry nearest in model, precision, batch and bytes, in this order, its effect on kernels scaled by what
// it is worth in a step (interference_scale() of overlap_fit.hpp). Factors below 1 are noise and count as 1.
// Where the profile has none: 1 and 1, assumed. Entries are measured within a node; between nodes a
// collective is held up by the wire and takes few multiprocessors (see the .cpp).
Interference interference_of(const Profile& profile, const std::string& model, Precision precision,
                             std::int64_t batch, std::int64_t bytes, int nodes, int ranks);

}  // namespace foretrain

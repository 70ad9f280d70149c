// What a collective costs more when it is the first after a pause than as one of a chain.
#pragma once

#include <cstdint>
#include <string>

#include "sim/training/profile.hpp"

namespace foretrain {

// Seconds that one collective on idle devices, set off by an event of the compute stream, takes longer than
// one of a chain of back-to-back calls (less than zero where a shaped link grants a burst; of a faster line
// by as much less as that is faster), between the measured sizes, those whose repetitions agree before
// others, interpolated over the logarithm of the bytes. From entries of the profile with both times, of the
// same kind, within a node or between nodes as asked, and the nearest number of ranks; `otherwise` where
// there is none.
double collective_start(const Profile& profile, const std::string& kind, std::int64_t bytes, int ranks,
                        int nodes, double line_rate, double otherwise);

}  // namespace foretrain

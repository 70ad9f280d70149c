// The order in which traces list slices.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/output/timeline.hpp"

namespace foretrain {

// By rank, track and start; a slice that holds another comes before it.
std::vector<std::size_t> slice_order(const Timeline& timeline);

}  // namespace foretrain

// When the items of a backward pass end, for a fusion of gradients that goes by time.
#pragma once

#include <functional>
#include <vector>

#include "device/backend.hpp"
#include "execute/exchange.hpp"

namespace foretrain {

// Seconds after the pass began, an item each: medians of a few passes on the input that lies on the device,
// of the slowest rank, so that all ranks hold the same. Gradients are overwritten, running statistics move
// on; weights do not change. `interrupted` is asked while waiting; it throws to end the wait.
std::vector<double> measure_item_ends(device::Worker& worker, device::Program& program, Exchange& exchange,
                                      const std::function<void()>& interrupted);

}  // namespace foretrain

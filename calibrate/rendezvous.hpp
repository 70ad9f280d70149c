// The ranks of several processes, joined by TCP: rank 0 listens, the others connect; values go through rank
// 0.
#pragma once

#include <memory>

#include "calibrate/launcher.hpp"
#include "calibrate/rank_group.hpp"

namespace foretrain::calibrate {

// Waits until all ranks have come, or throws Error (failure) after `timeout_seconds`. The group fails where a
// connection breaks.
std::unique_ptr<RankGroup> meet_over_tcp(const LaunchedRank& launched, double timeout_seconds = 60);

}  // namespace foretrain::calibrate

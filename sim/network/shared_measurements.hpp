// A profile's collectives arranged for prediction, once for all scenarios that share the profile.
#pragma once

#include <memory>

#include "sim/network/collective_measurements.hpp"

namespace foretrain {

// As CollectiveMeasurements' constructor; kept as long as the profile lives, safe from several threads.
std::shared_ptr<const CollectiveMeasurements> shared_measurements(
    const std::shared_ptr<const Profile>& profile, const NcclSystem& system, bool is_cpu);

}  // namespace foretrain

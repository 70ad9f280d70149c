#include "sim/network/shared_measurements.hpp"

#include "sim/base/kept_values.hpp"

namespace foretrain {
namespace {

struct MeasurementsKey {
  std::weak_ptr<const Profile> profile;
  NcclSystem system;
  bool is_cpu;

  bool expired() const { return profile.expired(); }
  bool operator==(const MeasurementsKey& other) const {
    return system == other.system && is_cpu == other.is_cpu && is_same_object(profile, other.profile);
  }
};

}  // namespace

std::shared_ptr<const CollectiveMeasurements> shared_measurements(
    const std::shared_ptr<const Profile>& profile, const NcclSystem& system, bool is_cpu) {
  if (profile == nullptr) return std::make_shared<CollectiveMeasurements>(nullptr, system, is_cpu);
  constexpr std::size_t clusters_of_a_grid = 64;
  static KeptValues<MeasurementsKey, CollectiveMeasurements> kept(clusters_of_a_grid);
  return kept.get({profile, system, is_cpu},
                  [&] { return CollectiveMeasurements(profile.get(), system, is_cpu); });
}

}  // namespace foretrain

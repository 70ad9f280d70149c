#include "sim/base/kept_values.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

struct TimesKey {
  std::weak_ptr<const Model> model;
  std::weak_ptr<const Profile> profile;
  Precision precision;
  std::int64_t batch;
  Optimizer optimizer;

  bool expired() const { return model.expired() || profile.expired(); }
  bool operator==(const TimesKey& other) const {
    return batch == other.batch && precision == other.precision && optimizer == other.optimizer &&
           is_same_object(model, other.model) && is_same_object(profile, other.profile);
  }
};

}  // namespace

std::shared_ptr<const StepTimes> shared_step_times(const std::shared_ptr<const Model>& model,
                                                   const std::shared_ptr<const Profile>& profile,
                                                   Precision precision, std::int64_t batch,
                                                   const Optimizer& optimizer) {
  constexpr std::size_t batches_of_a_grid = 256;
  static KeptValues<TimesKey, StepTimes> kept(batches_of_a_grid);
  return kept.get({model, profile, precision, batch, optimizer},
                  [&] { return step_times(*model, *profile, precision, batch, optimizer); });
}

}  // namespace foretrain

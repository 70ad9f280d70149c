#include "sim/base/kept_values.hpp"
#include "sim/training/operator_curves.hpp"
#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

struct CurvesKey {
  std::weak_ptr<const Model> model;
  std::weak_ptr<const Profile> profile;
  Precision precision;

  bool expired() const { return model.expired() || profile.expired(); }
  bool operator==(const CurvesKey& other) const {
    return precision == other.precision && is_same_object(model, other.model) &&
           is_same_object(profile, other.profile);
  }
};

struct TimesKey {
  CurvesKey curves;
  std::int64_t batch;
  Optimizer optimizer;

  bool expired() const { return curves.expired(); }
  bool operator==(const TimesKey& other) const {
    return batch == other.batch && optimizer == other.optimizer && curves == other.curves;
  }
};

}  // namespace

std::shared_ptr<const StepTimes> shared_step_times(const std::shared_ptr<const Model>& model,
                                                   const std::shared_ptr<const Profile>& profile,
                                                   Precision precision, std::int64_t batch,
                                                   const Optimizer& optimizer) {
  constexpr std::size_t batches_of_a_grid = 256, models_of_a_grid = 16;
  static KeptValues<CurvesKey, OperatorCurves> curves(models_of_a_grid);
  static KeptValues<TimesKey, StepTimes> kept(batches_of_a_grid);
  const CurvesKey of{model, profile, precision};
  return kept.get({of, batch, optimizer}, [&] {
    const auto known = curves.get(of, [&] { return OperatorCurves(*model, *profile, precision); });
    return step_times(*model, *profile, precision, batch, optimizer, *known);
  });
}

}  // namespace foretrain

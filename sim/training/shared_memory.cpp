#include "sim/base/kept_values.hpp"
#include "sim/training/memory.hpp"

namespace foretrain {
namespace {

struct MemoryKey {
  std::weak_ptr<const Model> model;
  std::weak_ptr<const Profile> profile;
  std::int64_t batch;
  Precision precision, gradients;
  Optimizer optimizer;

  bool expired() const { return model.expired() || profile.expired(); }
  bool operator==(const MemoryKey& other) const {
    return batch == other.batch && precision == other.precision && gradients == other.gradients &&
           optimizer == other.optimizer && is_same_object(model, other.model) &&
           is_same_object(profile, other.profile);
  }
};

}  // namespace

MemoryEstimate shared_memory_estimate(const std::shared_ptr<const Model>& model, std::int64_t batch,
                                      Precision precision, Precision gradients, const Optimizer& optimizer,
                                      const std::shared_ptr<const Profile>& profile) {
  constexpr std::size_t batches_of_a_grid = 256;
  static KeptValues<MemoryKey, MemoryEstimate> kept(batches_of_a_grid);
  return *kept.get({model, profile, batch, precision, gradients, optimizer}, [&] {
    return estimate_memory(*model, batch, precision, gradients, optimizer, profile.get());
  });
}

}  // namespace foretrain

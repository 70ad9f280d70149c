#include <mutex>
#include <utility>
#include <vector>

#include "sim/training/step_times.hpp"

namespace foretrain {
namespace {

// Enough for the batches of a grid; the oldest go first.
constexpr std::size_t most_kept = 256;

struct Kept {
  std::weak_ptr<const Model> model;
  std::weak_ptr<const Profile> profile;
  Precision precision;
  std::int64_t batch;
  Optimizer optimizer;
  std::shared_ptr<const StepTimes> times;
};

class KeptTimes {
 public:
  std::shared_ptr<const StepTimes> find(const std::shared_ptr<const Model>& model,
                                        const std::shared_ptr<const Profile>& profile, Precision precision,
                                        std::int64_t batch, const Optimizer& optimizer) const {
    const std::scoped_lock lock(mutex_);
    for (const Kept& each : kept_) {
      const bool is_same = each.precision == precision && each.batch == batch && each.optimizer == optimizer;
      // Of one that is gone the address may serve again: none is equal to it.
      if (is_same && each.model.lock() == model && each.profile.lock() == profile) return each.times;
    }
    return nullptr;
  }
  void add(Kept entry) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(kept_, [](const Kept& each) { return each.model.expired() || each.profile.expired(); });
    if (kept_.size() >= most_kept) kept_.erase(kept_.begin());
    kept_.push_back(std::move(entry));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace

std::shared_ptr<const StepTimes> shared_step_times(const std::shared_ptr<const Model>& model,
                                                   const std::shared_ptr<const Profile>& profile,
                                                   Precision precision, std::int64_t batch,
                                                   const Optimizer& optimizer) {
  static KeptTimes kept;
  if (auto known = kept.find(model, profile, precision, batch, optimizer)) return known;
  auto times = std::make_shared<const StepTimes>(step_times(*model, *profile, precision, batch, optimizer));
  kept.add({model, profile, precision, batch, optimizer, times});
  return times;
}

}  // namespace foretrain

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/training/step_times.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

struct Shared {
  std::shared_ptr<const Model> model = std::make_shared<const Model>(test::tiny_cnn());
  std::shared_ptr<const Profile> profile =
      std::make_shared<const Profile>(test::made_profile(*model, {16, 32}));
  Optimizer optimizer{.momentum = 0.9};

  std::shared_ptr<const StepTimes> at(std::int64_t batch) const {
    return shared_step_times(model, profile, Precision::bf16, batch, optimizer);
  }
};

double forward(const StepTimes& times) {
  double sum = 0;
  for (const StepItem& item : times.forward) sum += item.device;
  return sum;
}

}  // namespace

TEST_CASE("step times of a model and profile are computed once for each batch, optimizer and precision") {
  Shared own;
  const auto first = own.at(16);
  CHECK(own.at(16) == first);
  CHECK(forward(*first) == forward(step_times(*own.model, *own.profile, Precision::bf16, 16, own.optimizer)));
  CHECK(own.at(32) != first);
  own.optimizer.nesterov = true;
  CHECK(own.at(16) != first);
  CHECK_THROWS_AS(shared_step_times(own.model, own.profile, Precision::fp32, 16, own.optimizer), Error);
}

TEST_CASE("another model or profile has step times of its own, also after the first is gone") {
  Shared own;
  const auto first = own.at(16);
  const auto twice = std::make_shared<Profile>(*own.profile);
  for (OperatorEntry& entry : twice->operators) {
    for (PassTiming& pass : entry.passes) pass.device.median *= 2;
  }
  own.profile = twice;
  CHECK(forward(*own.at(16)) == approx(2 * forward(*first)));
  const StepTimes known = *first;
  for (int i = 0; i < 20; ++i) {
    const Shared next;
    CHECK(forward(*next.at(16)) == forward(known));
  }
  // No owner, no identity: an unowned pointer is never taken for another.
  const Profile plain = *twice;
  const std::shared_ptr<const Profile> unowned(std::shared_ptr<const Profile>(), &plain);
  CHECK(shared_step_times(own.model, unowned, Precision::bf16, 16, own.optimizer) !=
        shared_step_times(own.model, unowned, Precision::bf16, 16, own.optimizer));
}

TEST_CASE("threads that ask for step times at once get the same") {
  const Shared own;
  std::vector<std::shared_ptr<const StepTimes>> got(8);
  {
    std::vector<std::jthread> threads;
    for (auto& each : got) threads.emplace_back([&] { each = own.at(24); });
  }
  for (const auto& each : got) CHECK(forward(*each) == forward(*got.front()));
}

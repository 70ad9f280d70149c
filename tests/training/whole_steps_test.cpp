#include "sim/training/whole_steps.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/training/step_times.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

StepEntry whole(std::int64_t batch, double step, double host = 0) {
  StepEntry entry;
  entry.model = "m";
  entry.precision = Precision::bf16;
  entry.batch = batch;
  entry.step = {step, step, step, 0, 1};
  entry.host = {host, host, host, 0, 1};
  return entry;
}

}  // namespace

TEST_CASE("whole steps over their parts: exact where measured, over the logarithm between, held beyond") {
  Model model;
  model.name = "m";
  Profile profile;
  // Parts of 0.1 ms a sample: a layer, and an update of nothing.
  for (const std::int64_t batch : {16, 64, 128, 256}) {
    OperatorEntry entry;
    entry.context = "m";
    entry.layer = "l";
    entry.precision = Precision::bf16;
    entry.batch = batch;
    entry.passes[0].device.median = static_cast<double>(batch) * 1e-4;
    profile.operators.push_back(entry);
  }
  profile.optimizers.push_back({"sgd", "m", Precision::bf16, 1, {}});
  const auto factor = [&](std::int64_t batch) {
    return whole_over_parts(model, profile, Precision::bf16, batch);
  };
  CHECK(factor(32) == 1);
  profile.steps = {whole(16, 1.7e-3), whole(16, 1.6e-3), whole(64, 1.04 * 64e-4)};
  CHECK(factor(16) == approx(1));  // the latest counts
  CHECK(factor(64) == approx(1.04));
  CHECK(factor(32) == approx(1.02));
  CHECK(factor(8) == approx(1));
  CHECK(factor(512) == approx(1.04));
  profile.steps.push_back(whole(128, 1.05 * 128e-4, 0.95 * 128e-4));  // bound by its host
  CHECK(factor(128) == approx(1.04));
  // Its kernels then take no longer than it.
  profile.steps.push_back(whole(128, 0.8 * 128e-4, 128e-4));
  const auto shortest = [&](std::int64_t batch) {
    return shortest_over_parts(model, profile, Precision::bf16, batch);
  };
  CHECK(shortest(128) == approx(0.8));
  CHECK(shortest(100) == approx(0.8));
  CHECK(shortest(300) == approx(0.8));
  CHECK(shortest(64) == 1);
  CHECK(shortest(20) == 1);
  profile.steps.push_back(whole(256, 2 * 256e-4));  // of something else
  CHECK(factor(256) == 1);
  CHECK(whole_over_parts(model, profile, Precision::fp32, 64) == 1);
  model.sequence = 8;
  CHECK(factor(64) == 1);
}

TEST_CASE("cores that drift show in whole steps beside their parts, and in the interval") {
  const Model model = test::tiny_cnn();
  const auto predicted = [&](double factor, const char* device) {
    Profile profile = test::made_profile(model, {4, 8});
    profile.device = device;
    profile.steps.clear();
    for (const std::int64_t batch : {4, 8}) {
      const TimedParts parts = timed_parts(profile, model.name, Precision::bf16, batch, 0);
      StepEntry entry = whole(batch, (batch == 4 ? factor : 1) * (parts.passes + parts.beside));
      entry.model = model.name;
      entry.precision = Precision::bf16;
      profile.steps.push_back(entry);
    }
    return std::pair(drift_of_cores(model, profile, Precision::bf16),
                     step_times(model, profile, Precision::bf16, 8, model.optimizer).device_uncertainty);
  };
  CHECK(predicted(1, "cpu").first == doctest::Approx(0));
  for (const double factor : {1.2, 0.8}) CHECK(predicted(factor, "cpu").first == approx(0.2));
  CHECK(predicted(1.2, "cuda").first == 0);
  CHECK(predicted(1.2, "cpu").second == approx(std::hypot(predicted(1, "cpu").second, 0.2)));
  CHECK(predicted(1.2, "cuda").second == approx(predicted(1, "cuda").second));
}

TEST_CASE("what was timed twice counts once, and the copy of the input and captured steps are no parts") {
  Profile profile;
  const auto add_work = [&](const char* what, double seconds) {
    StepWorkEntry entry;
    entry.what = what;
    entry.model = "m";
    entry.precision = Precision::bf16;
    entry.batch = 8;
    entry.timing.device.median = seconds;
    profile.step_work.push_back(entry);
  };
  add_work("cast_weights", 5);
  add_work("cast_weights", 3);
  add_work("zero_gradients", 2);
  add_work("input_copy", 100);
  add_work(captured_step_work, 100);
  const TimedParts parts = timed_parts(profile, "m", Precision::bf16, 8, 0);
  CHECK(parts.beside == approx(5));
  CHECK(parts.passes == 0);
  CHECK_FALSE(parts.has_update);
  CHECK(timed_parts(profile, "m", Precision::bf16, 16, 0).beside == 0);
}

TEST_CASE("the parts of a predicted step sum up to the whole step that was measured") {
  const Model model = test::tiny_cnn();
  Profile profile = test::made_profile(model, {16, 32});
  const Optimizer& optimizer = model.optimizer;
  const auto sum = [&](std::int64_t batch) {
    const StepTimes times = step_times(model, profile, Precision::bf16, batch, optimizer);
    double seconds = 0;
    for (const auto* items : {&times.before, &times.forward, &times.backward, &times.update}) {
      for (const StepItem& item : *items) seconds += item.device;
    }
    return seconds;
  };
  profile.steps.clear();
  const double parts = sum(16);
  StepEntry entry = whole(16, 1.03 * parts);
  entry.model = model.name;
  entry.sequence = model.sequence;
  profile.steps = {entry};
  CHECK(sum(16) == approx(1.03 * parts));
}

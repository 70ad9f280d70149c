#include "sim/training/step_times.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "sim/base/error.hpp"
#include "sim/training/batch_curve.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Optimizer momentum() {
  Optimizer optimizer;
  optimizer.momentum = 0.9;
  return optimizer;
}

double device(const std::vector<StepItem>& items) {
  return std::accumulate(items.begin(), items.end(), 0.0,
                         [](double sum, const StepItem& i) { return sum + i.device; });
}

}  // namespace

TEST_CASE("a batch between two measured ones lies on the line, beyond them it is extrapolated and doubted") {
  const std::map<std::int64_t, double> points{{32, 1.0}, {64, 2.0}, {128, 3.0}};
  CHECK(at_batch(points, 64).value == 2.0);
  CHECK(at_batch(points, 64).origin == Origin::measured);
  CHECK(at_batch(points, 48).value == approx(1.5));
  CHECK(at_batch(points, 48).origin == Origin::fitted);
  CHECK(at_batch(points, 48).uncertainty > 0);
  CHECK_FALSE(at_batch(points, 48).extrapolated);
  CHECK(at_batch(points, 256).value == approx(5.0));
  CHECK(at_batch(points, 256).extrapolated);
  CHECK(at_batch(points, 512).uncertainty > at_batch(points, 256).uncertainty);
  CHECK(at_batch(points, 1).value > 0);
  CHECK(at_batch({{32, 1.0}}, 64).value == approx(2.0));
  CHECK(at_batch({{32, 1.0}}, 64).extrapolated);
}

TEST_CASE("items of a step come from operators in context; fused layers cost nothing") {
  const Model model = test::tiny_cnn();
  const Profile profile = test::made_profile(model, {16, 32});
  const StepTimes times = step_times(model, profile, Precision::bf16, 16, momentum());
  const int n = test::timed_layers(model);
  CHECK(static_cast<int>(times.forward.size()) == n);
  CHECK(device(times.forward) == approx(n * 26e-6));
  CHECK(device(times.backward) == approx(2 * n * 26e-6));
  CHECK(times.update.at(0).device == approx(100e-6));
  CHECK(times.origin == Origin::measured);
  CHECK(times.extrapolated.empty());
  // The last layer's gradients are ready first.
  CHECK(times.gradient_ready.back() < times.gradient_ready.front());
  CHECK(times.gradient_ready.front() == static_cast<int>(times.backward.size()) - 2);

  const StepTimes between = step_times(model, profile, Precision::bf16, 24, momentum());
  CHECK(device(between.forward) == approx(n * 34e-6));
  CHECK(between.origin == Origin::fitted);
  const StepTimes beyond = step_times(model, profile, Precision::bf16, 64, momentum());
  REQUIRE(beyond.extrapolated.size() == 1);
  CHECK(beyond.extrapolated[0].range == "16 to 32");
  CHECK(beyond.device_uncertainty > between.device_uncertainty);
}

TEST_CASE("a model, precision or optimizer that the profile lacks is an error that says what it has") {
  const Model model = test::tiny_cnn();
  const Profile profile = test::made_profile(model, {16});
  CHECK_THROWS_WITH_AS(step_times(model, profile, Precision::tf32, 16, momentum()),
                       doctest::Contains("bf16 at batch 16"), Error);
  CHECK_THROWS_WITH_AS(step_times(test::tiny_mlp(), profile, Precision::bf16, 16, momentum()),
                       doctest::Contains("has no times of layer"), Error);
  Optimizer adam;
  adam.kind = OptimizerKind::adam;
  CHECK_THROWS_WITH_AS(step_times(model, profile, Precision::bf16, 16, adam),
                       doctest::Contains("optimizer adam"), Error);
}

TEST_CASE("whole steps: a line through two points, a range from one") {
  StepTimeProfile profile;
  profile.points = {{32, 0.071, 0}, {64, 0.130, 0}};
  const Model model = test::tiny_cnn();
  const StepTimes at48 = step_times(model, profile, 48);
  CHECK(device(at48.forward) + device(at48.backward) == approx(0.1005));
  CHECK(device(at48.backward) == approx(0.067));
  CHECK(at48.origin == Origin::fitted);
  CHECK(step_times(model, profile, 128).extrapolated.size() == 1);
  profile.points.resize(1);
  const StepTimes from_one = step_times(model, profile, 64);
  CHECK(device(from_one.forward) + device(from_one.backward) == approx(0.1065));
  CHECK(from_one.device_uncertainty == approx(1.0 / 3));
}

TEST_CASE("gradients known by their size alone become notional parameters that sum to it") {
  const Model model = parameters_of_size(94e6);
  std::int64_t sum = 0;
  for (const Parameter& parameter : model.parameters) sum += parameter.elements;
  CHECK(sum == 23'500'000);
  CHECK(model.parameters.size() == 90);
}

TEST_CASE("a model of which the profile knows no layer at all is refused, with what it has") {
  Model model = test::tiny_cnn();
  const Profile profile = test::made_profile(model, {16});
  // Layers without parameters that were not timed may have been fused: of nothing else there is no step.
  model.name = "renamed";
  model.parameters.clear();
  for (Layer& layer : model.layers) {
    layer.kind = layer.inputs.empty() ? layer.kind : LayerKind::relu;
    layer.parameters.clear();
  }
  try {
    step_times(model, profile, Precision::bf16, 16, momentum());
    FAIL("was predicted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unavailable);
    const std::string text = error.what();
    CHECK(text.find("no times of any layer of model 'renamed' in bf16") != std::string::npos);
    CHECK(text.find("bf16 at batch 16") != std::string::npos);
  }
}

#include "sim/training/overlap_fit.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/network/families.hpp"
#include "sim/training/predict.hpp"
#include "sim/training/step_simulation.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Scenario scenario_of(const std::string& name, int gpus, std::int64_t = 0) {
  static const auto model = std::make_shared<Model>(test::resnet18());
  if (name != model->name) throw Error(ErrorKind::input, "no such model");
  Scenario scenario;
  scenario.model = model;
  scenario.optimizer.momentum = 0.9;
  NvlinkNode family;
  family.gpus_per_node = gpus;
  scenario.cluster.topology = make_topology(family);
  return scenario;
}

Profile profile_with_interference() {
  const Model model = test::resnet18();
  Profile profile = test::made_profile(model, {16, 64});
  InterferenceEntry entry;
  entry.model = model.name;
  entry.precision = Precision::bf16;
  entry.batch = 64;
  entry.ranks = 2;
  entry.bytes = 25 << 20;
  entry.compute_slowdown = {1.2, 1.2, 1.2, 0, 9};
  entry.collective_slowdown = {1.5, 1.5, 1.5, 0, 9};
  profile.interference = {entry};
  return profile;
}

OverlapEntry overlap(std::int64_t batch, double step, double alone = 0) {
  OverlapEntry entry;
  entry.model = test::resnet18().name;
  entry.precision = Precision::bf16;
  entry.batch = batch;
  entry.ranks = 2;
  entry.step.median = step;
  entry.alone.median = alone;
  return entry;
}

double one_worker(std::int64_t batch) {
  Scenario scenario =
      scenario_of_overlap(overlap(batch, 0), std::make_shared<Profile>(profile_with_interference()),
                          [](const std::string& name, int, std::int64_t) { return scenario_of(name, 1); });
  scenario.strategy.kind = StrategyKind::independent;
  return StepSimulation(scenario).run().seconds;
}

double step_with_scale(double scale, std::int64_t batch) {
  const Profile profile = profile_with_interference();
  const StepSimulation simulation(
      scenario_of_overlap(overlap(batch, 0), std::make_shared<Profile>(profile), scenario_of));
  StepFactors factors = simulation.at_quantile(0.5);
  factors.compute_interference = scale;
  return simulation.run(factors).seconds;
}

}  // namespace

TEST_CASE("the scale of interference is the one with which the overlapped step takes as long as measured") {
  for (const double truth : {0.0, 0.5, 1.0, 2.5}) {
    Profile profile = profile_with_interference();
    // Measured on a machine that is a tenth slower in all: only the ratio counts.
    profile.overlaps = {overlap(64, 1.1 * step_with_scale(truth, 64), 1.1 * one_worker(64))};
    CHECK(fit_overlaps(profile, scenario_of).empty());
    CHECK(profile.overlaps[0].interference_scale == approx(truth).epsilon(0.005));
    // And prediction uses it, where the steps were a training's.
    profile.overlaps[0].connected_first = true;
    const StepSimulation simulation(
        scenario_of_overlap(profile.overlaps[0], std::make_shared<Profile>(profile), scenario_of));
    CHECK(simulation.run(simulation.at_quantile(0.5)).seconds ==
          approx(profile.overlaps[0].step.median / 1.1).epsilon(1e-4));
  }
}

TEST_CASE("where no scale makes the step as long, ranks wait before a collective for what is left") {
  const double longest = step_with_scale(largest_interference_scale, 64);
  for (const double left : {1e-3, 0.2}) {
    Profile profile = profile_with_interference();
    profile.overlaps = {overlap(64, 1.1 * (longest + left), 1.1 * one_worker(64))};
    CHECK(fit_overlaps(profile, scenario_of).empty());
    CHECK(profile.overlaps[0].interference_scale == 1);
    CHECK(profile.overlaps[0].collective_wait > left);
    profile.overlaps[0].connected_first = true;
    const Scenario scenario =
        scenario_of_overlap(profile.overlaps[0], std::make_shared<Profile>(profile), scenario_of);
    const StepSimulation simulation(scenario);
    CHECK(simulation.run(simulation.at_quantile(0.5)).seconds == approx(longest + left).epsilon(1e-4));
    // Known to half.
    const Result result = predict(scenario, {});
    const StepPrediction& step = result.step;
    CHECK(step.high - step.p50 > 0.4 * profile.overlaps[0].collective_wait);
    if (left < 0.1) continue;
    CHECK(step.breakdown.waiting > 0.9 * left);
    CHECK(result.limiting.kind == "straggler");
    CHECK(result.limiting.text.find("Workers that wait for each other") == 0);
  }
}

TEST_CASE(
    "a step faster than without interference fits at the bound, one that no wait explains has the whole; "
    "unknown models are told") {
  Profile profile = profile_with_interference();
  profile.overlaps = {overlap(16, 1e-4, 1), overlap(64, 10, 1)};
  profile.overlaps.push_back(profile.overlaps[0]);
  profile.overlaps[2].model = "nowhere";
  profile.overlaps[2].collective_wait = 1;
  const std::vector<std::string> problems = fit_overlaps(profile, scenario_of);
  CHECK(profile.overlaps[0].interference_scale == 0);
  CHECK(profile.overlaps[0].collective_wait == 0);
  CHECK(profile.overlaps[1].interference_scale == 1);
  CHECK(profile.overlaps[1].collective_wait == approx(9 * one_worker(64)).epsilon(0.2));
  CHECK(profile.overlaps[2].interference_scale < 0);
  CHECK(profile.overlaps[2].collective_wait == 0);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("nowhere bf16 batch 16 on 2 ranks") == 0);
}

TEST_CASE("between batches scale and wait are interpolated over the batch's logarithm, beyond them held") {
  Profile profile;
  const auto scale = [&](const char* model, Precision precision, std::int64_t batch, int ranks) {
    return overlap_cost(profile, model, precision, batch, ranks).interference_scale;
  };
  const auto wait = [&](const char* model, std::int64_t batch, int ranks) {
    return overlap_cost(profile, model, Precision::bf16, batch, ranks).collective_wait;
  };
  CHECK(scale("m", Precision::bf16, 32, 2) == 1);
  CHECK(wait("m", 32, 2) == 0);
  const auto add = [&](const char* model, std::int64_t batch, int ranks, double factor, double seconds) {
    OverlapEntry entry = overlap(batch, 1);
    entry.model = model;
    entry.ranks = ranks;
    entry.interference_scale = factor;
    entry.collective_wait = seconds;
    entry.connected_first = true;
    profile.overlaps.push_back(entry);
  };
  add("m", 16, 2, 1, 1e-3);
  add("m", 64, 2, 2, 0);
  add("m", 64, 8, 5, 4e-3);
  add("n", 64, 2, 3, 0);
  add("m", 128, 2, largest_interference_scale, 7);
  add("m", 32, 2, 7, 7);
  profile.overlaps.back().connected_first = false;
  CHECK(scale("m", Precision::bf16, 32, 2) == approx(1.5));
  CHECK(scale("m", Precision::bf16, 8, 2) == 1);
  CHECK(scale("m", Precision::bf16, 256, 3) == 2);
  CHECK(scale("m", Precision::bf16, 32, 8) == 5);
  CHECK(scale("other", Precision::bf16, 32, 2) == approx(2.5));
  CHECK(scale("m", Precision::tf32, 32, 2) == 1);
  CHECK(wait("m", 32, 2) == approx(0.5e-3));
  CHECK(wait("m", 8, 2) == approx(1e-3));
  CHECK(wait("m", 256, 3) == 0);
  CHECK(wait("m", 32, 8) == approx(4e-3));
  CHECK(wait("other", 32, 2) == approx(0.5e-3));
}

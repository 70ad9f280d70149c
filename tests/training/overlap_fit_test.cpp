#include "sim/training/overlap_fit.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/network/families.hpp"
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

TEST_CASE(
    "a step faster than without interference or slower than any fits at the bounds; unknown models are "
    "told") {
  Profile profile = profile_with_interference();
  profile.overlaps = {overlap(16, 1e-4, 1), overlap(64, 10, 1)};
  profile.overlaps.push_back(profile.overlaps[0]);
  profile.overlaps[2].model = "nowhere";
  const std::vector<std::string> problems = fit_overlaps(profile, scenario_of);
  CHECK(profile.overlaps[0].interference_scale == 0);
  CHECK(profile.overlaps[1].interference_scale == largest_interference_scale);
  CHECK(profile.overlaps[2].interference_scale < 0);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("nowhere bf16 batch 16 on 2 GPUs") == 0);
}

TEST_CASE("between batches the scale is interpolated over the batch's logarithm, beyond them held") {
  Profile profile;
  CHECK(interference_scale(profile, "m", Precision::bf16, 32, 2) == 1);
  const auto add = [&](const char* model, std::int64_t batch, int ranks, double scale) {
    OverlapEntry entry = overlap(batch, 1);
    entry.model = model;
    entry.ranks = ranks;
    entry.interference_scale = scale;
    entry.connected_first = true;
    profile.overlaps.push_back(entry);
  };
  add("m", 16, 2, 1);
  add("m", 64, 2, 2);
  add("m", 64, 8, 5);
  add("n", 64, 2, 3);
  add("m", 128, 2, largest_interference_scale);
  add("m", 32, 2, 7);
  profile.overlaps.back().connected_first = false;
  CHECK(interference_scale(profile, "m", Precision::bf16, 32, 2) == approx(1.5));
  CHECK(interference_scale(profile, "m", Precision::bf16, 8, 2) == 1);
  CHECK(interference_scale(profile, "m", Precision::bf16, 256, 3) == 2);
  CHECK(interference_scale(profile, "m", Precision::bf16, 32, 8) == 5);
  CHECK(interference_scale(profile, "other", Precision::bf16, 32, 2) == approx(2.5));
  CHECK(interference_scale(profile, "m", Precision::tf32, 32, 2) == 1);
}

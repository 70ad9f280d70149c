#include "sim/training/crowding.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

TEST_CASE("workers on one host's cores slow each other as calibration saw") {
  Profile profile;
  profile.device = "cpu";
  for (const std::int64_t batch : {16, 32}) {
    StepEntry step;
    step.model = "m";
    step.batch = batch;
    step.step.median = 1e-3 * static_cast<double>(batch);
    profile.steps.push_back(step);
    OverlapEntry both;
    both.model = "m";
    both.batch = batch;
    both.ranks = 2;
    both.alone.median = 1.4 * step.step.median;
    profile.overlaps.push_back(both);
  }
  CHECK(crowding_factor(profile, "m", Precision::fp32, 1) == 1);
  CHECK(crowding_factor(profile, "m", Precision::fp32, 2) == doctest::Approx(1.4));
  CHECK(crowding_factor(profile, "another", Precision::fp32, 2) == doctest::Approx(1.4));
  CHECK(crowding_factor(profile, "m", Precision::fp32, 3) == doctest::Approx(1.8));
  profile.device = "cuda";
  CHECK(crowding_factor(profile, "m", Precision::fp32, 2) == 1);
  profile.device = "cpu";
  profile.overlaps.clear();
  CHECK(crowding_factor(profile, "m", Precision::fp32, 2) == 1);
}

#include "sim/training/crowding.hpp"

#include <doctest/doctest.h>

#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

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
  CHECK(crowding_of(profile, "m", Precision::fp32, 1).factor == 1);
  CHECK(crowding_of(profile, "m", Precision::fp32, 2).factor == approx(1.4));
  CHECK(crowding_of(profile, "another", Precision::fp32, 2).factor == approx(1.4));
  CHECK(crowding_of(profile, "m", Precision::fp32, 3).factor == approx(1.8));
  CHECK(crowding_of(profile, "m", Precision::fp32, 2).slower == 0);
  profile.overlaps[0].alone.median *= 1.5;  // 2.1 at one batch, 1.4 at the other
  const Crowding strays = crowding_of(profile, "m", Precision::fp32, 2);
  CHECK(strays.factor == approx(1.75));
  CHECK(strays.factor * (1 + strays.slower) == approx(2.1));
  CHECK(strays.factor * (1 - strays.faster) == approx(1.4));
  // Steps of one in turns with those of two tell more.
  profile.overlaps[0].one = {profile.overlaps[0].alone.median / 1.2, 0, 0, 0, 9};
  profile.overlaps[1].one = {profile.overlaps[1].alone.median / 1.3, 0, 0, 0, 9};
  CHECK(crowding_of(profile, "m", Precision::fp32, 2).factor == approx(1.25));
  profile.overlaps[1].one = {};  // of an older run: it does not count beside the other
  CHECK(crowding_of(profile, "m", Precision::fp32, 2).factor == approx(1.2));
  profile.device = "cuda";
  CHECK(crowding_of(profile, "m", Precision::fp32, 2).factor == 1);
  profile.device = "cpu";
  profile.overlaps.clear();
  CHECK(crowding_of(profile, "m", Precision::fp32, 2).factor == 1);
}

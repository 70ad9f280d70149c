#include "sim/training/host_speed.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

StepEntry step_of(std::int64_t batch, double step_us, double host_us, double launches = 100) {
  StepEntry entry;
  entry.model = "m";
  entry.batch = batch;
  entry.step = {step_us * 1e-6, step_us * 1e-6, step_us * 1e-6, 0, 20};
  entry.host = {host_us * 1e-6, host_us * 1e-6, host_us * 1e-6, 0, 5};
  entry.launches = launches;
  return entry;
}

// By how much of their range another draw exceeds the extremes of n, once in ten.
double beyond(int n) {
  return std::pow(20.0 / (n + 1), 1.0 / (n - 1)) - 1;
}

}  // namespace

TEST_CASE("a host's speed is the median of what all windows of a calibration saw") {
  Profile profile;
  profile.device = "cuda";
  // Bound by the host: both the time to issue a step and the step itself are windows, of 5 and 7 us a launch.
  profile.steps = {step_of(8, 500, 700), step_of(16, 500, 500), step_of(32, 700, 700)};
  const HostSpeed slow = host_speed(profile, "m", Precision::fp32, 0, 8);
  CHECK(slow.windows == 6);
  CHECK(slow.factor == approx(6.0 / 7));
  // Of three times as of four: the range of 2 us says little of what a fifth would be.
  CHECK(slow.slower == approx((7.0 + 2 * beyond(4)) / 6 - 1));
  CHECK(slow.faster == approx(1 - (5.0 - 2 * beyond(4)) / 6));
  CHECK(host_speed(profile, "m", Precision::fp32, 0, 16).factor == approx(6.0 / 5));
  CHECK(host_speed(profile, "m", Precision::fp32, 0, 128).factor == approx(6.0 / 7));
  // Of a batch between, the host's time is interpolated: 6 us.
  CHECK(host_speed(profile, "m", Precision::fp32, 0, 23).factor == approx(1).epsilon(0.01));
  // A device that is the limit tells nothing of the host but the time to issue.
  profile.steps = {step_of(8, 5000, 700), step_of(16, 9000, 500)};
  const HostSpeed few = host_speed(profile, "m", Precision::fp32, 0, 8);
  CHECK(few.windows == 2);
  CHECK(few.factor == 1);
  CHECK(few.slower == 0);
  // Steps of other numbers of launches are other programs.
  profile.steps = {step_of(8, 500, 500), step_of(16, 500, 500), step_of(32, 900, 900, 300)};
  CHECK(host_speed(profile, "m", Precision::fp32, 0, 8).windows == 4);
  CHECK(host_speed(profile, "m", Precision::fp32, 0, 8).slower == 0);
}

TEST_CASE("between lengths a host strays as it did at those that were timed") {
  Profile profile;
  for (const auto& [length, host_us] : {std::pair{20, 500.0}, {20, 600.0}, {60, 700.0}, {60, 600.0}}) {
    StepEntry entry = step_of(profile.steps.size() % 2 == 0 ? 8 : 16, 9000, host_us);
    entry.sequence = length;
    profile.steps.push_back(entry);
  }
  const HostSpeed between = host_speed(profile, "m", Precision::fp32, 40, 8);
  CHECK(between.factor == 1);
  CHECK(between.slower == approx((7.0 + 2 * beyond(4)) / 6 - 1));
  CHECK(between.faster == approx(1 - (5.0 - 2 * beyond(4)) / 6));
}

TEST_CASE("many windows need little beyond their extremes, equal ones nothing") {
  Profile profile;
  double before = 1;
  for (const int batches : {4, 8, 12, 18, 30}) {
    profile.steps.clear();
    for (int i = 0; i < batches; ++i) {
      const double us = i % 2 == 0 ? 500 : 600;
      profile.steps.push_back(step_of(8 + i, us, us));
    }
    const double slower = host_speed(profile, "m", Precision::fp32, 0, 8).slower;
    CHECK(slower >= 600.0 / 550 - 1 - 1e-12);
    CHECK(slower < before + 1e-12);
    before = slower;
  }
  CHECK(before == approx(600.0 / 550 - 1));  // a draw beyond thirty is rarer than one in ten
  for (StepEntry& entry : profile.steps) entry = step_of(entry.batch, 500, 500);
  CHECK(host_speed(profile, "m", Precision::fp32, 0, 8).slower == doctest::Approx(0));
}

TEST_CASE("a virtual host may have shown one of its two speeds alone") {
  Profile profile;
  profile.runs.emplace_back().machine.virtual_machine = true;
  const auto speed = [&] { return host_speed(profile, "m", Precision::fp32, 0, 8); };
  profile.steps = {step_of(8, 500, 500), step_of(16, 500, 500)};
  CHECK(speed().slower == approx(0.45));
  CHECK(speed().faster == approx(1 - 1 / 1.45));
  // Both were seen: no third is thought of.
  profile.steps.clear();
  for (int i = 0; i < 30; ++i) {
    const double us = i % 2 == 0 ? 500 : 725;
    profile.steps.push_back(step_of(8 + i, us, us));
  }
  CHECK(speed().slower == approx(725 / 612.5 - 1));
  CHECK(speed().faster == approx(1 - 500 / 612.5));
}

TEST_CASE("a model of few windows strays as the profile's others do") {
  Profile profile;
  profile.steps = {step_of(8, 500, 700), step_of(16, 500, 500)};
  StepEntry other = step_of(8, 5000, 400);
  other.model = "other";
  profile.steps.push_back(other);
  const HostSpeed speed = host_speed(profile, "other", Precision::fp32, 0, 8);
  CHECK(speed.factor == 1);
  const double expected = 0.4 + 0.4 * beyond(4);  // 7 us over the median of 5, and the least of 5
  CHECK(speed.slower == approx(expected));
  CHECK(host_speed(profile, "absent", Precision::fp32, 0, 8).slower == approx(expected));
}

TEST_CASE("threads of one process wait for each other's launches as calibration saw") {
  Profile profile;
  profile.device = "cuda";
  for (const double added : {0.2, 0.4}) {
    const std::int64_t batch = added < 0.3 ? 8 : 16;
    profile.steps.push_back(step_of(batch, 500, 500));
    OverlapEntry both;
    both.model = "m";
    both.batch = batch;
    both.ranks = 2;
    both.alone.median = 500e-6 * (1 + added);
    profile.overlaps.push_back(both);
  }
  const LaunchContention two = launch_contention(profile, "m", Precision::fp32, 2);
  CHECK(two.factor == approx(1.3));
  CHECK(two.slower == approx(1.4 / 1.3 - 1));
  CHECK(two.faster == approx(1 - 1.2 / 1.3));
  const LaunchContention four = launch_contention(profile, "m", Precision::fp32, 4);
  CHECK(four.factor == approx(1.3));
  CHECK(four.slower == approx((1 + 3 * 0.4) / 1.3 - 1));
  CHECK(launch_contention(profile, "another", Precision::fp32, 2).factor == approx(1.3));
  CHECK(launch_contention(profile, "m", Precision::fp32, 1).factor == 1);
  // Steps that their device bounds do not show it.
  for (StepEntry& entry : profile.steps) entry.host.median = 100e-6;
  CHECK(launch_contention(profile, "m", Precision::fp32, 2).factor == 1);
}

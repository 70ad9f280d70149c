#include "sim/training/interference.hpp"

#include <doctest/doctest.h>

#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

InterferenceEntry entry(const char* model, int nodes, double line_rate, double compute, double collective) {
  InterferenceEntry e;
  e.model = model;
  e.precision = Precision::fp32;
  e.batch = 16;
  e.ranks = 2;
  e.nodes = nodes;
  e.line_rate = line_rate;
  e.bytes = 1 << 20;
  e.compute_slowdown = {compute, compute, compute, 0, 9};
  e.collective_slowdown = {collective, collective, collective, 0, 9};
  return e;
}

Interference of(const Profile& profile, const char* model, const InterferencePlace& place) {
  return interference_of(profile, model, Precision::fp32, 16, 1 << 20, place);
}

}  // namespace

TEST_CASE("a network's interference is that of the nearest rate, before that of the model") {
  Profile profile;
  profile.device = "cpu";
  profile.interference = {entry("m", 1, 0, 1.5, 1.2), entry("m", 2, 12.5e6, 1.4, 0.9),
                          entry("m", 2, 125e6, 2.1, 1.6), entry("other", 2, 1.25e9, 3, 2)};
  const Interference at_gigabit = of(profile, "m", {2, 2, 125.5e6});
  CHECK(at_gigabit.compute == approx(2.1));
  CHECK(at_gigabit.collective == approx(1.6));
  CHECK(at_gigabit.origin == Origin::measured);
  const Interference slow = of(profile, "m", {2, 2, 10e6});
  CHECK(slow.compute == approx(1.4));
  CHECK(slow.collective == approx(1));  // below 1 is noise
  CHECK(slow.origin == Origin::fitted);
  CHECK(of(profile, "m", {4, 4, 2e9}).compute == approx(3));
  CHECK(of(profile, "other", {2, 2, 125e6}).compute == approx(2.1));
  CHECK(of(profile, "other", {2, 2, 125e6}).origin == Origin::fitted);
  // Within a node those of a node count, whatever the networks have.
  CHECK(of(profile, "m", {2, 1, 0}).compute == approx(1.5));
}

TEST_CASE("a model without interference of its own loses what is between those of others") {
  Profile profile;
  profile.device = "cuda";
  profile.interference = {entry("a", 2, 125e6, 1.02, 1), entry("b", 2, 125e6, 1.14, 1.3),
                          entry("c", 2, 125e6, 1.05, 1.1), entry("d", 2, 1.25e9, 2, 2)};
  profile.interference.push_back(entry("a", 2, 125e6, 1.5, 1.5));
  profile.interference.back().batch = 64;  // farther
  const Interference found = of(profile, "m", {2, 2, 125e6});
  CHECK(found.compute == approx(1.05));
  CHECK(found.collective == approx(1.1));
  CHECK(found.origin == Origin::fitted);
  CHECK(of(profile, "b", {2, 2, 125e6}).compute == approx(1.14));
  // Within a node as well.
  for (InterferenceEntry& each : profile.interference) each.nodes = 1;
  profile.interference.pop_back();
  CHECK(of(profile, "m", {2, 1, 0}).compute == approx((1.05 + 1.14) / 2));
}

TEST_CASE("a profile without interference between nodes has none, but for what GPUs were once seen to lose") {
  Profile profile;
  profile.interference = {entry("m", 1, 0, 1.5, 1.2)};
  profile.device = "cpu";
  CHECK(of(profile, "m", {2, 2, 125e6}).compute == approx(1));
  CHECK(of(profile, "m", {2, 2, 125e6}).origin == Origin::assumed);
  profile.device = "cuda";
  CHECK(of(profile, "m", {2, 2, 125e6}).compute == approx(1.08));
  CHECK(of(profile, "m", {2, 2, 125e6}).origin == Origin::fitted);
  profile.interference.push_back(entry("m", 2, 125e6, 1.02, 1.1));
  CHECK(of(profile, "m", {2, 2, 125e6}).compute == approx(1.02));
}

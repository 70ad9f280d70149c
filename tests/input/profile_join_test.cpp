#include "sim/input/profile_join.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "tests/input/example_profile.hpp"

using namespace foretrain;

namespace {

Profile collectives_of(const std::string& name, const std::string& gpu) {
  Profile profile = example_profile();
  profile.name = name;
  profile.runs[0].machine.gpu = gpu;
  profile.operators.clear();
  profile.steps.clear();
  profile.optimizers.clear();
  profile.step_work.clear();
  profile.interference.clear();
  profile.collectives[0].time.median = profile.collectives[0].time.low = 2e-5;
  return profile;
}

std::shared_ptr<const Profile> shared(Profile profile) {
  return std::make_shared<const Profile>(std::move(profile));
}

}  // namespace

TEST_CASE("a further run adds entries and replaces those of the same key") {
  Profile profile = example_profile();
  Profile more = example_profile();
  more.runs[0].date = "2026-01-02T00:00:00Z";
  more.operators[0].passes[0].device.median = 7;
  more.operators.push_back(more.operators[0]);
  more.operators[1].batch = 128;
  merge_profile(profile, more);
  CHECK(profile.runs.size() == 2);
  CHECK(profile.launches.size() == 2);
  REQUIRE(profile.operators.size() == 2);
  CHECK(profile.operators[0].passes[0].device.median == 7);
  CHECK(profile.operators[1].batch == 128);
  CHECK(profile.collectives.size() == 1);
}

TEST_CASE("GPU types are never mixed in one profile") {
  Profile profile = example_profile();
  Profile other = example_profile();
  other.name = "h200";
  other.runs[0].machine.gpu = "NVIDIA H200";
  CHECK_THROWS_WITH_AS(
      merge_profile(profile, other),
      "profile 'h100' (NVIDIA H100) cannot be extended by 'h200' (NVIDIA H200): a profile holds "
      "one GPU type; write the other to a file of its own",
      Error);
  CHECK_THROWS_WITH_AS(join_profiles({shared(profile), shared(other)}), doctest::Contains("cannot be joined"),
                       Error);
  CHECK_THROWS_AS(join_profiles({}), Error);
  Profile empty;
  merge_profile(empty, profile);
  CHECK(empty.name == "h100");
}

TEST_CASE("later profiles of a list win; collectives alone may come from another machine") {
  const auto base = shared(example_profile());
  CHECK_FALSE(is_collectives_only(*base));
  const auto fabric = shared(collectives_of("fabric", "NVIDIA A100"));
  REQUIRE(is_collectives_only(*fabric));
  for (const auto& list : {std::vector{base, fabric}, std::vector{fabric, base}}) {
    const Profile joined = join_profiles(list);
    const bool fabric_last = list.back() == fabric;
    CHECK(joined.name == (fabric_last ? "h100 + fabric" : "fabric + h100"));
    CHECK(device_of(joined) == "NVIDIA H100");
    CHECK(joined.runs.size() == 1);
    CHECK(joined.operators.size() == 1);
    REQUIRE(joined.collectives.size() == 1);
    CHECK(joined.collectives[0].source == (fabric_last ? "fabric" : "h100"));
    CHECK(joined.collectives[0].time.median == (fabric_last ? 2e-5 : 3e-5));
  }
  const Profile same = join_profiles({base, shared(collectives_of("later", "NVIDIA H100"))});
  CHECK(same.name == "h100 + later");
  CHECK(same.runs.size() == 2);
}

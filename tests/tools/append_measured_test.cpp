// tools/append_measured.py: what another machine measured comes into a profile as it is, and once.
#include <doctest/doctest.h>

#include "sim/input/diagnostics.hpp"
#include "sim/input/profile_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/input/example_profile.hpp"

using namespace foretrain;
using test::Finished;
using test::TemporaryFolder;

namespace {

bool has_python() {
  return test::run_command({"sh", "-c", "command -v python3"}).status == 0;
}

Finished append(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"python3", std::string(FORETRAIN_SOURCE_DIR) + "/tools/append_measured.py"});
  return test::run_command(arguments);
}

Profile read(const std::string& path) {
  Diagnostics diagnostics;
  const std::optional<Profile> found = read_profile(path, diagnostics);
  CHECK_NOTHROW(diagnostics.throw_errors());
  REQUIRE(found);
  return *found;
}

// Of another machine: between nodes, and collectives on four GPUs.
Profile from_elsewhere() {
  Profile profile = example_profile();
  profile.runs[0].command =
      "foretrain calibrate --model resnet50 --batch 64 --network 'ethernet 10 Gbit/s tcp'";
  profile.runs.push_back(profile.runs[0]);
  profile.runs[1].command = "foretrain calibrate --collectives --gpus 4";
  InterferenceEntry& between = profile.interference[0];
  between.nodes = 2;
  between.network = "ethernet 10 Gbit/s tcp";
  between.line_rate = 1.25e9;
  between.compute_slowdown = {1.136, 1.134, 1.141, 0.001, 20};
  profile.collectives[0].ranks = 4;
  return profile;
}

}  // namespace

TEST_CASE("what another machine measured is taken into a profile once" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string path = folder.path("h100.json.gz"), source = folder.path("elsewhere.json.gz");
  write_profile(example_profile(), path);
  write_profile(from_elsewhere(), source);
  const Finished between = append({path, source, "--interference", "resnet50", "vgg16"});
  REQUIRE_MESSAGE(between.status == 0, between.err);
  const Finished four = append({path, source, "--collectives", "3", "4"});
  REQUIRE_MESSAGE(four.status == 0, four.err);
  const Profile joined = read(path);
  REQUIRE(joined.interference.size() == 2);
  CHECK(joined.interference[0].nodes == 1);
  CHECK(joined.interference[1].nodes == 2);
  CHECK(joined.interference[1].compute_slowdown.median == 1.136);
  CHECK(joined.interference[1].line_rate == 1.25e9);
  REQUIRE(joined.collectives.size() == 2);
  CHECK(joined.collectives[1].ranks == 4);
  CHECK(joined.runs.size() == 3);
  CHECK(joined.operators.size() == 1);

  const auto refused = [&](std::vector<std::string> arguments, const std::string& what) {
    arguments.insert(arguments.begin(), path);
    const Finished done = append(arguments);
    CHECK(done.status == 1);
    CHECK_MESSAGE(done.err.find(what) != std::string::npos, done.err);
  };
  refused({source, "--interference", "resnet50"}, "the profile has such interference");
  refused({source, "--collectives", "4"}, "the profile has such collectives");
  refused({source, "--interference", "vgg16"}, "the source holds no such interference");
  Profile other = from_elsewhere();
  for (CalibrationRun& run : other.runs) run.machine.gpu = "NVIDIA A100";
  write_profile(other, source);
  refused({source, "--interference", "resnet50"}, "NVIDIA A100");
  CHECK(read(path).runs.size() == 3);
}

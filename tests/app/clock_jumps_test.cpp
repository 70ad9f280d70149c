// Nothing that is measured or waited for goes by the wall clock, which may be set at any time.
#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <numeric>

#include "sim/input/profile_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/records.hpp"
#include "tests/support/slowdown.hpp"

using namespace foretrain;
using test::Finished;

namespace {

const char* const model = R"(title: a perceptron
unit: images
input: { channels: 1, height: 8, width: 8 }
classes: 3
optimizer: { kind: sgd, learning_rate: 0.1 }
layers:
  - flatten
  - linear: { name: fc1, out: 64 }
  - relu
  - linear: { name: fc2, out: 3 }
  - softmax_cross_entropy: { name: loss }
)";

test::RunOptions with_jumps() {
  const auto folder = std::filesystem::path(FORETRAIN_PROGRAM).parent_path();
  test::RunOptions options;
  options.environment = {"LD_PRELOAD=" + (folder / "libforetrain_jumping_clock.so").string()};
  return options;
}

// Each is a duration, and together they took no longer than the process.
void check_durations(const std::vector<double>& seconds, double wall) {
  REQUIRE_FALSE(seconds.empty());
  CHECK(*std::min_element(seconds.begin(), seconds.end()) > 0);
  CHECK(std::accumulate(seconds.begin(), seconds.end(), 0.0) < wall);
}

}  // namespace

TEST_CASE("the clock of these tests jumps") {
  const Finished date = test::run_command({"date", "+%s"}, with_jumps());
  REQUIRE(date.status == 0);
  CHECK(date.err.empty());
  CHECK(std::abs(std::difftime(std::stoll(date.out), std::time(nullptr))) > 3000);
}

TEST_CASE("a run measures and waits alike while the wall clock jumps") {
  const test::TemporaryFolder folder;
  folder.write("small.yaml", model);
  // A process for each rank too: they wait for each other's files and for their ends.
  for (const char* processes : {"one", "per_gpu"}) {
    CAPTURE(processes);
    const std::string file = folder.write(
        std::string(processes) + ".yaml",
        "model: small.yaml\nprofile: { steps: [[16, 1 ms], [32, 2 ms]] }\nbatch: { per_worker: 16 }\n"
        "cluster: { topology: one-node, workers: 2 }\nhost: { processes: " +
            std::string(processes) +
            " }\ndataset: { samples: 3200 }\njob:\n  epochs: 3\n  evaluate: { every: 1 epoch, samples: 64 }\n"
            "  checkpoint: { every: 1 epoch, write: 1 GB/s }\n");
    const std::string out = folder.path(std::string(processes) + ".json");
    const std::string state = folder.path(std::string(processes) + ".state");
    const Finished done =
        test::run_foretrain({"run", file, "--device", "reference", "--out", out, "--checkpoint", state,
                             "--time-limit", "20", "--monitor", "10"},
                            with_jumps());
    REQUIRE_MESSAGE(done.status == 0, done.err);
    const RunRecord record = test::read_record(out);
    CHECK(record.complete);
    REQUIRE(record.ranks.size() == 2);
    for (const RankRecord& rank : record.ranks) {
      check_durations(rank.step, done.seconds);
      check_durations(rank.step_host, done.seconds);
    }
    for (const RunEvent& event : record.events) {
      CAPTURE(event.what);
      CHECK(event.begin >= 0);
      CHECK(event.begin <= event.end);
      CHECK(event.end < done.seconds);
    }
    CHECK_FALSE(record.monitor.empty());
    for (const MonitorSeries& series : record.monitor) {
      CHECK(std::is_sorted(series.time.begin(), series.time.end()));
      CHECK(std::abs(series.time.back()) < done.seconds);
    }
  }
}

TEST_CASE("a calibration keeps to its budget and measures alike while the wall clock jumps") {
  const test::TemporaryFolder folder;
  folder.write("small.yaml", model);
  const std::string out = folder.path("p.json");
  const Finished done = test::run_foretrain(
      {"calibrate", "--model", folder.path("small.yaml"), "--batch", "16", "--device", "reference", "--gpus",
       "2", "--collectives", "--seconds", test::budget(5), "--out", out},
      with_jumps());
  REQUIRE_MESSAGE(done.status == 0, done.err);
  Diagnostics diagnostics;
  const auto profile = read_profile(out, diagnostics);
  diagnostics.throw_errors();
  REQUIRE(profile);
  CHECK(profile->runs.at(0).seconds > 0);
  CHECK(profile->runs.at(0).seconds < done.seconds);
  CHECK_FALSE(profile->collectives.empty());
  for (const CollectiveEntry& entry : profile->collectives)
    check_durations({entry.time.median}, done.seconds);
  for (const StepEntry& entry : profile->steps) check_durations({entry.host.median}, done.seconds);
}

// tools/campaign.py: the list of rows is read strictly, slices are estimated, and what a slice would run is
// shown.
#include <doctest/doctest.h>

#include <filesystem>

#include "sim/input/profile_json.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/input/example_profile.hpp"

using namespace foretrain;
using test::Finished;
using test::TemporaryFolder;

namespace {

const std::string source = FORETRAIN_SOURCE_DIR;

bool has_python() {
  return test::run_command({"sh", "-c", "command -v python3"}).status == 0;
}

Finished campaign(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"python3", source + "/tools/campaign.py"});
  return test::run_command(arguments);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const char* const rows =
    "# two slices\n"
    "calibration:\n"
    "  - { model: resnet50, precision: bf16, batches: 32 64, seconds: 20 }\n"
    "rows:\n"
    "  - { slice: a, group: one, model: resnet50, precision: bf16, batch: 48, gpus: 1, step: 10 }\n"
    "  - { slice: a, group: net, model: resnet50, precision: bf16, batch: 48, gpus: 2, nodes: 2, rate: 10 "
    "Gbit/s, "
    "repeats: 3, warmup: 5, step: 100 }\n"
    "  - { slice: b, group: one, model: resnet50, precision: bf16, batch: 64, gpus: 1, step: 4000 }\n";

}  // namespace

TEST_CASE("a campaign's slices and their device time are listed" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const Finished done = campaign({folder.write("rows.yaml", rows), "--list"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  // a: calibration 8 + 20, between nodes 8 + 40 and 8 + 12; runs 8 + 4 + (1 + 10 + 100) x 10 ms and 8 + 4 + 3
  // x 106 x 100 ms
  CHECK(contains(done.out, "a                        2     4       96 s   57 s  153 s"));
  // b: 12 steps of 4 s are more than 20 s, and they are run all the same
  CHECK(contains(done.out, "b                        1     1       28 s  104 s  132 s"));
  CHECK(contains(done.out, "3 rows, 5 runs, 5 minutes of a machine of 2 GPUs"));
}

TEST_CASE("a slice writes its scenarios and shows its commands" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string list = folder.write("rows.yaml", rows);
  const Finished done =
      campaign({list, "--slice", "a", "--out", folder.path("out"), "--program", "foretrain", "--dry-run"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(contains(done.out, "foretrain calibrate --device cuda --out " + folder.path("out/a/profile.json.gz") +
                               " --append --model resnet50 --batch 32,64 --precision bf16"));
  CHECK(contains(done.out, "nodes.sh 2 10gbit 1 foretrain calibrate"));
  CHECK(contains(done.out, "nodes.sh 2 10gbit 1 foretrain run " +
                               folder.path("out/a/resnet50-bf16-48-ddp-2x1-10g.yaml") + " --device cuda"));
  CHECK(contains(done.out, "--network 'ethernet 10 Gbit/s tcp' --seconds 40 --buckets-of resnet50\n"));
  CHECK(
      contains(done.out,
               "--append --network 'ethernet 10 Gbit/s tcp' --model resnet50 --batch 64 --precision bf16\n"));
  CHECK(contains(done.out, "--group net --repeats 3 --warmup 5"));
  CHECK_FALSE(contains(done.out, "resnet50-bf16-64"));  // of the other slice
  const std::string scenario = test::read_file(folder.path("out/a/resnet50-bf16-48-ddp-2x1-10g.yaml"));
  CHECK(contains(scenario, "profile: [profile.json.gz, profile-10gbit.json.gz]"));
  CHECK(contains(scenario,
                 "network: { bandwidth: 10 Gbit/s, latency: 15 us, transport: tcp, reported: 10 Gbit/s }"));
  const Finished missing = campaign({list, "--missing", folder.path("out")});
  CHECK(missing.status == 1);
  CHECK(contains(missing.out, "a/resnet50-bf16-48-ddp-2x1-10g.3\n"));
  CHECK(contains(missing.out, "5 of 5 runs are missing"));
}

TEST_CASE("a smaller machine runs the rows that fit" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string list = folder.write("rows.yaml", rows);
  const auto with = [&](const std::string& most) {
    return campaign({list, "--slice", "a", "--out", folder.path("out"), "--program", "true", "--dry-run",
                     "--most-rows-gpus", most});
  };
  CHECK(contains(with("2").out, "nodes.sh"));
  const Finished one = with("1");
  REQUIRE_MESSAGE(one.status == 0, one.err);
  CHECK_FALSE(contains(one.out, "nodes.sh"));
  CHECK(contains(one.out, "resnet50-bf16-48-ddp-1x1.yaml"));
}

TEST_CASE("a larger machine runs the rows that are left" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string list = folder.write("rows.yaml", rows);
  const auto with = [&](const std::string& least) {
    return campaign({list, "--slice", "a", "--out", folder.path("out"), "--program", "true", "--dry-run",
                     "--least-rows-gpus", least});
  };
  const Finished two = with("2");
  REQUIRE_MESSAGE(two.status == 0, two.err);
  CHECK(contains(two.out, "nodes.sh"));
  CHECK_FALSE(contains(two.out, "resnet50-bf16-48-ddp-1x1.yaml"));
  const Finished many = with("9");
  CHECK(many.status == 2);
  CHECK(contains(many.err, "slice 'a' has no row of 9 or more GPUs"));
}

TEST_CASE("a slice takes over what an earlier one calibrated" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string list = folder.write("rows.yaml", rows);
  std::filesystem::create_directories(folder.path("out/before"));
  Profile profile = example_profile();
  profile.operators.front().context = "resnet50";
  profile.operators.front().precision = Precision::bf16;
  write_profile(profile, folder.path("out/before/profile.json.gz"));
  write_profile(profile, folder.path("out/before/profile-10gbit.json.gz"));
  const std::vector<std::string> options = {
      "--out", folder.path("out"), "--calibrated", folder.path("out/before"), "--program", "true"};
  auto with = [&](const std::string& slice, std::vector<std::string> more) {
    std::vector<std::string> all = {list, "--slice", slice};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), more.begin(), more.end());
    return campaign(all);
  };
  const Finished planned = with("a", {"--dry-run"});
  CHECK(contains(planned.out, "nodes.sh 2 10gbit 1 true run"));
  CHECK_FALSE(contains(planned.out, "true calibrate"));
  const Finished done = with("b", {});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK_FALSE(contains(done.out, "true calibrate"));
  CHECK(test::read_file(folder.path("out/b/profile.json.gz")) ==
        test::read_file(folder.path("out/before/profile.json.gz")));
  CHECK_FALSE(std::filesystem::exists(folder.path("out/b/profile-10gbit.json.gz")));
  const Finished nowhere = campaign(
      {list, "--slice", "b", "--calibrated", folder.path("x"), "--out", folder.path("out"), "--dry-run"});
  CHECK(nowhere.status == 2);
  CHECK(contains(nowhere.err, "holds no profile.json.gz"));
}

TEST_CASE("four GPUs are predicted from what calibration saw on two" * doctest::skip(!has_python())) {
  const std::string list = source + "/validation/live-gpu/rows-four.yaml";
  const Finished slices = campaign({list, "--list"});
  REQUIRE_MESSAGE(slices.status == 0, slices.err);
  CHECK(contains(slices.out, "40 rows"));
  CHECK_FALSE(contains(slices.out, "longer than nine minutes"));
  const TemporaryFolder folder;
  auto commands = [&](const std::string& slice) {
    return campaign({list, "--slice", slice, "--out", folder.path("out"), "--program", "foretrain",
                     "--most-gpus", "2", "--dry-run"})
        .out;
  };
  const std::string local = commands("four-local"), network = commands("four-10-gbit-c");
  CHECK(contains(local, "foretrain calibrate --device cuda --gpus 2 --out"));
  CHECK(contains(network, "nodes.sh 2 10gbit 1 foretrain calibrate --device cuda --out"));
  CHECK(contains(network, "nodes.sh 4 10gbit 1 foretrain run"));
  CHECK(contains(commands("four-10-gbit-a"), "nodes.sh 2 10gbit 1 foretrain calibrate"));
}

TEST_CASE("rows of a table are run with given profiles, without calibration" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const Finished done =
      campaign({source + "/validation/earlier/live-gpu-1/rows.txt", "--slice", "net-10", "--out",
                folder.path("out"), "--profile", "h100", "--profile", "two-nodes-tcp-10-gbit", "--soak", "5",
                "--program", "foretrain", "--dry-run"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK_FALSE(contains(done.out, "foretrain calibrate"));
  CHECK(contains(done.out, "nodes.sh 2 10gbit 1 foretrain run "));
  CHECK(contains(done.out, "--soak 5"));
  const std::string scenario = test::read_file(folder.path("out/net-10/resnet50-bf16-128-ddp-2x1-10g.yaml"));
  CHECK(contains(scenario, "profile: [h100, two-nodes-tcp-10-gbit]"));
  CHECK(contains(scenario, "bandwidth: 10 Gbit/s"));
}

TEST_CASE("a list of rows that is wrong is refused with its line" * doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string text = rows;
  auto refused = [&](const std::string& with) {
    const Finished done = campaign({folder.write("wrong.yaml", with), "--list"});
    CHECK(done.status == 2);
    return done.err;
  };
  CHECK(contains(refused(text + "  - { slice: a, mdoel: x }\n"), "wrong.yaml:8: 'mdoel' is unknown"));
  CHECK(contains(refused(text + "  - { slice: a }\n"), "wrong.yaml:8: group, model"));
  CHECK(contains(refused(text + "nonsense\n"), "wrong.yaml:8: neither"));
  CHECK(contains(refused(text + text.substr(text.rfind("  -"))),
                 "two rows are called resnet50-bf16-64-ddp-1x1"));
  CHECK(contains(campaign({folder.write("rows.yaml", rows), "--slice", "c"}).err,
                 "there is no slice 'c'; there are a, b"));
}

TEST_CASE("the campaign that is committed fits slices of nine minutes" * doctest::skip(!has_python())) {
  const Finished done = campaign({source + "/validation/live-gpu/rows.yaml", "--list"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK_FALSE(contains(done.out, "longer than nine minutes"));
}

TEST_CASE("rows of unequal lengths and captured steps have calibrations and scenarios of their own" *
          doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string list = folder.write(
      "rows.yaml",
      "calibration:\n"
      "  - { model: char-rnn, precision: bf16, batches: 4 16 }\n"
      "  - { model: char-rnn, precision: bf16, batches: 8, sequences: 50 200 }\n"
      "rows:\n"
      "  - { slice: u, group: one, model: char-rnn, precision: bf16, batch: 8, gpus: 1, lengths: 50:3 200:1, "
      "batching: pad_batch, step: 2 }\n"
      "  - { slice: c, group: one, model: char-rnn, precision: bf16, batch: 8, gpus: 1, cuda_graph: true, "
      "step: 2 }\n");
  const auto slice = [&](const char* name) {
    const Finished done = campaign({list, "--slice", name, "--out", folder.path("out"), "--dry-run"});
    REQUIRE_MESSAGE(done.status == 0, done.err);
    return done.out;
  };
  const std::string unequal = slice("u");
  CHECK(contains(unequal, "--batch 8 --precision bf16"));
  CHECK(contains(unequal, "--sequence 50"));
  CHECK(contains(unequal, "--sequence 200"));
  CHECK_FALSE(contains(unequal, "--batch 4,16"));
  CHECK(contains(test::read_file(folder.path("out/u/char-rnn-bf16-8-pad-batch-ddp-1x1.yaml")),
                 "sequence: { lengths: { 50: 3, 200: 1 }, batching: pad_batch }"));
  const std::string captured = slice("c");
  CHECK(contains(captured, "--batch 4,16"));
  CHECK_FALSE(contains(captured, "--sequence"));
  CHECK(contains(test::read_file(folder.path("out/c/char-rnn-bf16-8-captured-ddp-1x1.yaml")),
                 "execution: { cuda_graph: true }"));
  const Finished alone =
      campaign({folder.write("bad.yaml",
                             "calibration:\n  - { model: a, precision: bf16, batches: 4 }\n"
                             "rows:\n  - { slice: u, group: one, model: a, precision: bf16, "
                             "batch: 8, gpus: 1, batching: packed, step: 2 }\n"),
                "--list"});
  CHECK(alone.status == 2);
  CHECK(contains(alone.err, "lengths and batching go together"));
}

TEST_CASE("a row has a length between calibrated ones, and steps that it counts" *
          doctest::skip(!has_python())) {
  const TemporaryFolder folder;
  const std::string calibrations =
      "calibration:\n"
      "  - { model: gpt2-small, precision: bf16, batches: 8, seconds: 20 }\n"
      "  - { model: gpt2-small, precision: bf16, batches: 8, sequences: 128 512, seconds: 10 }\n"
      "rows:\n";
  const std::string row =
      "  - { slice: a, group: one, model: gpt2-small, precision: bf16, batch: 8, gpus: 1, ";
  const std::string list =
      folder.write("rows.yaml", calibrations + row + "sequence: 256, steps: 15, step: 10 }\n" + row +
                                    "sequence: 384, step: 15 }\n");
  const Finished done =
      campaign({list, "--slice", "a", "--out", folder.path("out"), "--program", "foretrain", "--dry-run"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(contains(done.out, "--sequence 128"));
  CHECK(contains(done.out, "--sequence 512"));
  CHECK(contains(done.out, "--steps 15"));
  CHECK(contains(done.out, "gpt2-small-bf16-8x384-ddp-1x1.yaml --device cuda"));
  CHECK_FALSE(contains(done.out, "parts-gpt2-small-bf16.json"));  // of the model's own length
  const std::string scenario = test::read_file(folder.path("out/a/gpt2-small-bf16-8x256-ddp-1x1.yaml"));
  CHECK(contains(scenario, "sequence: 256\n"));
  const std::string both =
      folder.write("both.yaml", calibrations + row +
                                    "sequence: 256, lengths: 128:1 256:1, batching: packed, step: 10 }\n");
  CHECK(contains(campaign({both, "--list"}).err, "lengths or one sequence"));
}

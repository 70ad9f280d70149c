// What the system does to the program: no room for a file, a folder that may not be written, signals at any
// time, two writers of one file, inputs that end early or are of another machine.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "sim/input/json_tree.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/records.hpp"

using namespace foretrain;
using test::Finished;
using test::run_command;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

using Names = std::vector<std::string>;

const std::string scenario = std::string(FORETRAIN_SOURCE_DIR) + "/scenarios/second-node.yaml";

bool is_json(const std::string& text) {
  Diagnostics diagnostics;
  return JsonTree::parse(text, "out.json", diagnostics).has_value();
}

const char* const tiny_model = R"(title: a tiny perceptron
unit: images
input: { channels: 1, height: 4, width: 4 }
classes: 3
optimizer: { kind: sgd, learning_rate: 0.1 }
layers:
  - flatten
  - linear: { name: fc, out: 3 }
  - softmax_cross_entropy: { name: loss }
)";

// A job of two workers on the reference backend, whose checkpoints come every epoch of ten updates.
std::string tiny_job(int epochs) {
  return "model: tiny.yaml\nprofile: { steps: [[4, 1 ms], [8, 2 ms]] }\nbatch: { per_worker: 4 }\n"
         "cluster: { topology: one-node, workers: 2 }\ndataset: { samples: 80 }\n"
         "job: { epochs: " +
         std::to_string(epochs) + ", checkpoint: { every: 1 epoch, write: 1 GB/s } }\n";
}

// The beginning of a command that runs the rest with `folder` mounted read-only, in a namespace of its own;
// empty where this machine lets nobody make one.
Names read_only(const std::string& folder) {
  const bool is_root = ::geteuid() == 0;
  const Names start{"unshare", is_root ? "--mount" : "--map-root-user",
                    "--mount", "sh",
                    "-c",      "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"",
                    folder};
  Names probe = start;
  probe.insert(probe.end(), {"sh", "-c", "! touch \"$0/probe\" 2>/dev/null", folder});
  return run_command(probe).status == 0 ? start : Names();
}

}  // namespace

TEST_CASE("a file that finds no room is an error, and what was there stays") {
  const TemporaryFolder folder;
  const std::string out = folder.write("out.json", "before");
  // A process may write files of 512 bytes.
  const Finished full =
      run_command({"/bin/sh", "-c", "ulimit -f 1; exec \"$0\" simulate \"$1\" -q --json \"$2\"",
                   FORETRAIN_PROGRAM, scenario, out});
  CHECK(full.status == 1);
  CHECK(full.err.find("out.json: cannot write: File too large") != std::string::npos);
  CHECK(test::read_file(out) == "before");
  CHECK(folder.files() == Names{"out.json"});
}

TEST_CASE("a folder that may not be written is an error before anything is measured, and stays as it is") {
  const TemporaryFolder folder;
  folder.write("tiny.yaml", tiny_model);
  const std::string job = folder.write("job.yaml", tiny_job(1)), locked = folder.path("locked");
  folder.write("locked/old.json", "before");
  const Names start = read_only(locked);
  if (start.empty()) {
    MESSAGE("skipped: no mount namespace can be made here");
    return;
  }
  const Names run{"run", job, "--device", "reference", "--out"};
  const Names calibrate{"calibrate", "--model",  folder.path("tiny.yaml"), "--batch", "4",
                        "--device",  "reference"};
  const std::string record = folder.path("record.json"), result = folder.path("result.json");
  REQUIRE(run_foretrain({"simulate", scenario, "-q", "--json", result}).status == 0);
  const auto with = [](Names command, const Names& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const std::vector<std::pair<std::string, Names>> refused{
      {"new.json", {"simulate", scenario, "-q", "--json"}},
      {"old.json", {"simulate", scenario, "-q", "--json"}},
      {"new.csv", {"sweep", scenario, "-q", "--vary", "cluster.nodes=1,2", "--csv"}},
      {"new.pftrace", {"simulate", scenario, "-q", "--trace"}},
      {"new.html", {"report", result, "-o"}},
      {"new.json", run},
      {"state", with(run, {record, "--checkpoint"})},
      {"new.json.gz", with(calibrate, {"--out"})},
  };
  for (const auto& each : refused) {
    const auto& name = each.first;
    const auto& arguments = each.second;
    const std::string target = locked + "/" + name;
    CAPTURE(target);
    CAPTURE(arguments);
    const Finished done = run_command(with(with(start, {FORETRAIN_PROGRAM}), with(arguments, {target})));
    CAPTURE(done.err);
    CHECK(done.status == 1);
    CHECK(done.err.find(target + ": cannot write: Read-only file system") != std::string::npos);
    CHECK(test::read_file(locked + "/old.json") == "before");
    CHECK_FALSE(std::filesystem::exists(record));  // no step was trained for a checkpoint that cannot be kept
  }
  CHECK(std::distance(std::filesystem::directory_iterator(locked), {}) == 1);
}

TEST_CASE("a signal at any time ends a sweep with whole files or none") {
  for (const int milliseconds : {1, 20, 60, 150, 400}) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXCPU}) {
      CAPTURE(milliseconds);
      CAPTURE(signal);
      const TemporaryFolder folder;
      test::RunOptions options;
      options.signal = signal;
      options.signal_after_ms = milliseconds;
      const Finished done =
          run_foretrain({"sweep", scenario, "--vary", "batch.per_worker=8,16,24,32,40,48,56,64", "--vary",
                         "cluster.nodes=1,2,4,8,16", "-q", "--json", folder.path("out.json")},
                        options);
      const bool is_there = std::filesystem::exists(folder.path("out.json"));
      CHECK(folder.files() == (is_there ? Names{"out.json"} : Names()));
      if (is_there) CHECK(is_json(test::read_file(folder.path("out.json"))));
      if (done.status == 0) CHECK(is_there);
    }
  }
}

TEST_CASE("two processes that write one file leave the whole file of one of them") {
  const TemporaryFolder folder;
  const std::string out = folder.path("out.json");
  const Finished both = run_command({"/bin/sh", "-c",
                                     "for i in 1 2 3 4; do \"$0\" simulate \"$1\" -q --json \"$2\" --set "
                                     "batch.per_worker=$i >/dev/null & done; wait",
                                     FORETRAIN_PROGRAM, scenario, out});
  CHECK(both.status == 0);
  CHECK(is_json(test::read_file(out)));
  CHECK(folder.files() == Names{"out.json"});
}

TEST_CASE("two runs that write one record and one checkpoint leave whole ones") {
  const TemporaryFolder folder;
  folder.write("tiny.yaml", tiny_model);
  folder.write("job.yaml", tiny_job(20));
  const std::string record = folder.path("out.json"), state = folder.path("state");
  const Finished both = run_command(
      {"/bin/sh", "-c",
       "for i in 1 2; do \"$0\" run \"$1\" -q --device reference --out \"$2\" --checkpoint \"$3\" & "
       "all=\"$all $!\"; done; for one in $all; do wait $one || exit; done",
       FORETRAIN_PROGRAM, folder.path("job.yaml"), record, state});
  REQUIRE_MESSAGE(both.status == 0, both.err);
  CHECK(test::read_record(record).complete);
  CHECK(folder.files() == Names{"job.yaml", "out.json", "state", "tiny.yaml"});
  // The checkpoint is read to its end, and is that of the job's.
  const Finished resumed =
      run_foretrain({"run", folder.path("job.yaml"), "-q", "--device", "reference", "--out",
                     folder.path("after.json"), "--checkpoint", state, "--resume", "--set", "job.epochs=21"});
  REQUIRE_MESSAGE(resumed.status == 0, resumed.err);
  const std::int64_t done = test::read_record(folder.path("after.json")).resumed_after;
  CHECK(done >= 190);
  CHECK(done % 10 == 0);
}

TEST_CASE("a profile of another device is told before training, and in the record") {
  const TemporaryFolder folder;
  folder.write("tiny.yaml", tiny_model);
  folder.write("job.yaml", tiny_job(1));
  const std::string profile = folder.path("own.json"), other = folder.path("other.json");
  const Names calibrate{"calibrate", "--model",   folder.path("tiny.yaml"),
                        "--batch",   "4",         "--gpus",
                        "1",         "--seconds", "2",
                        "--device",  "reference", "--out"};
  Names first = calibrate;
  first.push_back(profile);
  REQUIRE(run_foretrain(first).status == 0);
  std::string text = test::read_file(profile);
  const std::string device = "reference (double precision, host)";
  for (std::size_t at = text.find(device); at != std::string::npos; at = text.find(device, at + 1))
    text.replace(at, device.size(), "NVIDIA H100 80GB HBM3");
  folder.write("other.json", text);
  const auto run_with = [&](const std::string& with) {
    return run_foretrain({"run", folder.path("job.yaml"), "--device", "reference", "--steps", "3",
                          "--profile", with, "--out", folder.path("out.json")});
  };
  const std::string warning = "was measured on 'NVIDIA H100 80GB HBM3', this machine has '" + device + "'";
  const Finished same = run_with(profile), far = run_with(other);
  REQUIRE_MESSAGE(same.status == 0, same.err);
  CHECK(same.err.find("was measured on") == std::string::npos);
  REQUIRE_MESSAGE(far.status == 0, far.err);
  CHECK(far.err.find(warning) != std::string::npos);
  // Nothing of this device may join what was measured on the other.
  Names second = calibrate;
  second.insert(second.end(), {other, "--append"});
  const Finished refused = run_foretrain(second);
  CHECK(refused.status == 2);
  CHECK(refused.err.find("a profile holds one GPU type") != std::string::npos);
  CHECK(test::read_file(other) == text);
}

TEST_CASE("a profile that ends early is an error that names it, wherever it ends") {
  const TemporaryFolder folder;
  const std::string whole = test::read_file(std::string(FORETRAIN_SOURCE_DIR) + "/profiles/h100.json.gz");
  REQUIRE(!whole.empty());
  for (const std::size_t tenths : {0U, 1U, 3U, 5U, 9U}) {
    CAPTURE(tenths);
    const std::string cut = folder.write("cut.json.gz", whole.substr(0, whole.size() * tenths / 10));
    const Finished done = run_foretrain({"simulate", scenario, "-q", "--profile", cut});
    CHECK(done.status == 2);
    CHECK(done.err.find("cut.json.gz") != std::string::npos);
    CHECK(done.out.empty());
  }
}

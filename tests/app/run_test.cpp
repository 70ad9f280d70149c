// `foretrain run` as a user types it, on the reference backend.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "execute/run_record_json.hpp"
#include "sim/base/sha256.hpp"
#include "sim/output/event_file.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/records.hpp"

using namespace foretrain;
using foretrain::test::approx;
using test::Finished;
using test::read_record;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

const char* const model = R"(title: a tiny perceptron
unit: images
input: { channels: 1, height: 4, width: 4 }
classes: 3
optimizer: { kind: sgd, learning_rate: 0.1 }
layers:
  - flatten
  - linear: { name: fc1, out: 8 }
  - relu
  - linear: { name: fc2, out: 3 }
  - softmax_cross_entropy: { name: loss }
)";

std::string scenario(int workers, const std::string& strategy = "ddp") {
  return "# Does it run?\nmodel: tiny.yaml\nprofile: { steps: [[4, 1 ms], [8, 2 ms]] }\nbatch: { per_worker: "
         "4 }\n"
         "cluster: { topology: one-node, workers: " +
         std::to_string(workers) + " }\nstrategy: { kind: " + strategy + " }\n";
}

struct Folder : TemporaryFolder {
  Folder() { write("tiny.yaml", model); }
  Finished run(std::vector<std::string> arguments, const test::RunOptions& options = {}) const {
    arguments.insert(arguments.begin(), "run");
    arguments.insert(arguments.end(), {"--device", "reference"});
    return run_foretrain(arguments, options);
  }
};

}  // namespace

TEST_CASE("run trains, measures and keeps the prediction made before") {
  const Folder folder;
  const std::string file = folder.write("two.yaml", scenario(2)), out = folder.path("two.json");
  const Finished done = folder.run({file, "--out", out, "--steps", "6", "--warmup", "2", "--phase-every", "2",
                                    "--group", "g", "--tensorboard", folder.path("board")});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const std::string events = "/events.out.tfevents.0.foretrain";
  const EventFile measured =
      read_event_file(test::read_file(folder.path("board/two/measured") + events), "measured");
  const auto steps = std::count_if(measured.events.begin(), measured.events.end(),
                                   [](const ScalarEvent& each) { return each.tag == "step_time_s"; });
  CHECK(steps == 6);
  CHECK(read_event_file(test::read_file(folder.path("board/two/predicted") + events), "predicted")
            .events.size() == 12);
  CHECK(done.out.find("two: 2 x tiny fp32, batch 4 per worker: ") == 0);
  CHECK(done.out.find("; predicted ") != std::string::npos);
  const RunRecord record = read_record(out);
  CHECK(record.complete);
  CHECK(record.scenario_name == "two");
  CHECK(record.scenario_yaml == scenario(2));
  CHECK(record.group == "g");
  CHECK(record.command.find("foretrain run ") == 0);
  CHECK_FALSE(record.date.empty());
  CHECK_FALSE(record.foretrain.empty());
  CHECK(record.phase_every == 2);
  REQUIRE(record.prediction);
  CHECK(record.prediction->step > 0);
  CHECK(record.prediction->digest == sha256(record.prediction->json));
  CHECK(record.prediction->time >= record.date);
  CHECK(done.err.find(record.prediction->digest) != std::string::npos);
  REQUIRE(record.ranks.size() == 2);
  CHECK(record.ranks[1].step.size() == 6);
  CHECK(record.ranks[1].forward.size() == 3);
  CHECK(record.ranks[0].checksum == record.ranks[1].checksum);
}

TEST_CASE("several runs go into a folder") {
  const Folder folder;
  const std::string one = folder.write("one.yaml", scenario(1)), two = folder.write("two.yaml", scenario(2));
  const std::string out = folder.path("records");
  const Finished done = folder.run({one, two, "--out", out, "--steps", "3", "--warmup", "1", "--repeats", "2",
                                    "--set", "strategy.kind=parameter_server"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  for (const char* name : {"/one.1.json", "/one.2.json", "/two.1.json", "/two.2.json"})
    CHECK(read_record(out + name).complete);
  CHECK(read_record(out + "/two.2.json").repeat == 1);
  CHECK(read_record(out + "/two.2.json").strategy == "parameter_server");
  CHECK(read_record(out + "/two.2.json").overrides ==
        std::vector<std::string>{"strategy.kind=parameter_server"});
}

TEST_CASE("what is not there is status 4, bad input 2, and nothing is written") {
  const Folder folder;
  const std::string out = folder.path("out.json");
  const std::string many = folder.write("many.yaml", scenario(65));
  const Finished devices = folder.run({many, "--out", out});
  CHECK(devices.status == 4);
  CHECK(devices.err.find("65 workers on 1 node; what is there: 64 devices") != std::string::npos);
  const std::string two = folder.write("two.yaml", scenario(2));
  test::RunOptions nodes;
  nodes.environment = {"NODE_RANK=0", "NNODES=2", "FORETRAIN_RENDEZVOUS=" + folder.path("meet")};
  const Finished mismatch = folder.run({two, "--out", out}, nodes);
  CHECK(mismatch.status == 4);
  CHECK(mismatch.err.find("what is there: NNODES=2") != std::string::npos);
  CHECK(folder.run({folder.write("bad.yaml", "model: nothing\n"), "--out", out}).status == 2);
  CHECK(folder.run({two, two, "--out", out}).status == 2);
  CHECK(folder.files() == std::vector<std::string>{"bad.yaml", "many.yaml", "tiny.yaml", "two.yaml"});
}

TEST_CASE("outputs that are one file, or an input, are refused before anything is written") {
  const Folder folder;
  const std::string two = folder.write("two.yaml", scenario(2)),
                    as_json = folder.write("two.json", scenario(2));
  const std::string record = folder.path("out.json"), before = test::read_file(two);
  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.end(), {"--steps", "2"});
    const Finished done = folder.run(arguments);
    CAPTURE(done.err);
    CHECK(done.status == 2);
    CHECK(done.err.find(why) != std::string::npos);
  };
  refused({two, "--out", record, "--checkpoint", record}, "--out and --checkpoint both write to");
  refused({two, "--out", record, "--curve", folder.path("./out.json")}, "--out and --curve both write to");
  refused({as_json, "--out", as_json}, "would overwrite");
  refused({two, "--out", record, "--checkpoint", two}, "would overwrite");
  refused({two, "--out", two}, "would overwrite");
  refused({two, "--out", record, "--curve", folder.path("none/c.csv")}, "cannot write: there is no folder");
  refused({two, "--out", record, "--checkpoint", folder.path("none/c")}, "cannot write: there is no folder");
  refused({two, "--out", "-"}, "a record is called .json or .json.gz");
  refused({two, "--out", two + "/below"}, "cannot make the folder: Not a directory");
  CHECK(test::read_file(two) == before);
  CHECK(folder.files() == std::vector<std::string>{"tiny.yaml", "two.json", "two.yaml"});
}

TEST_CASE("a checkpoint that nothing writes, and one of the job's end, are said") {
  const Folder folder;
  const std::string two = folder.write("two.yaml", scenario(2)), out = folder.path("out.json");
  const std::string state = folder.path("state");
  const Finished none = folder.run({two, "--steps", "2", "--out", out, "--checkpoint", state});
  CHECK(none.status == 0);
  CHECK(none.err.find("no checkpoint is written, for the run has no job.checkpoint") != std::string::npos);
  const std::string job =
      folder.write("job.yaml", scenario(2) +
                                   "dataset: { samples: 16 }\njob: { epochs: 2, checkpoint: "
                                   "{ every: 1 epoch, write: 1 GB/s } }\n");
  CHECK(folder.run({job, "--out", out, "--checkpoint", state}).status == 0);
  const Finished again = folder.run({job, "--out", out, "--checkpoint", state, "--resume"});
  CHECK(again.status == 0);
  CHECK(again.out.find("no step is left, the checkpoint of update 4 is at the job's end") !=
        std::string::npos);
}

TEST_CASE("Ctrl-C leaves the finished steps") {
  const Folder folder;
  // Steps of a millisecond: of the tiny model there would be so many that to write them takes a second of its
  // own.
  std::string larger = model;
  larger.replace(larger.find("out: 8"), 6, "out: 512");
  folder.write("tiny.yaml", larger);
  const std::string two = folder.write("two.yaml", scenario(2)), out = folder.path("out.json.gz");
  test::RunOptions options;
  options.signal_after_ms = 1500;
  const Finished done = folder.run({two, "--out", out, "--steps", "1000000000"}, options);
  CHECK(done.status == 128 + 2);
  const RunRecord record = read_record(out);
  CHECK_FALSE(record.complete);
  REQUIRE(record.ranks.size() == 2);
  CHECK(record.ranks[0].step.size() > 10);
}

TEST_CASE("a crash says where it happened") {
  const Folder folder;
  const std::string two = folder.write("two.yaml", scenario(2));
  test::RunOptions options;
  options.signal_after_ms = 1000;
  options.signal = SIGSEGV;
  const Finished done = folder.run({two, "--out", folder.path("out.json"), "--steps", "1000000000"}, options);
  CHECK(done.status == 128 + SIGSEGV);
  CHECK(done.err.find("crashed (SIGSEGV); this is a defect") != std::string::npos);
  CHECK(done.err.find("foretrain(+0x") != std::string::npos);
}

TEST_CASE("Ctrl-C waits for a record that takes long to write") {
  const Folder folder;
  folder.write("two.yaml", scenario(2));
  // A pipe is written to when somebody reads: here two seconds after the signal.
  const Finished done = test::run_command({"bash", "-c",
                                           "cd '" + folder.path("") +
                                               "' && mkfifo out.json && { '" FORETRAIN_PROGRAM
                                               "' run two.yaml --out out.json --steps 1000000000 --device "
                                               "reference & } && timeout 20 cat out.json > "
                                               "begun.json && sleep 0.5 && kill -TERM $! && sleep 2 && "
                                               "timeout 20 cat out.json > ended.json; wait $!"});
  CHECK(done.status == 128 + 15);
  CHECK(read_record(folder.path("begun.json")).ranks.empty());
  const RunRecord record = read_record(folder.path("ended.json"));
  CHECK_FALSE(record.complete);
  REQUIRE(record.ranks.size() == 2);
  CHECK(record.ranks[0].step.size() > 10);
}

TEST_CASE("jobs beside this one are not started, and that is said before anything is") {
  const Folder folder;
  const std::string file =
      folder.write("shared.yaml", scenario(4) + "others:\n  - { gpus: { from: 2, to: 3 } }\n");
  REQUIRE(run_foretrain({"simulate", file}).status == 0);
  const Finished refused = folder.run({file, "--out", folder.path("out.json")});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("'others' are jobs beside this one, which run does not start") != std::string::npos);
  CHECK(folder.files() == std::vector<std::string>{"shared.yaml", "tiny.yaml"});
}

TEST_CASE("AdaDamp for real: the batch follows the measured loss, which predicts the same job") {
  const Folder folder;
  const std::string file = folder.write("ada.yaml", R"(# Does the batch follow the loss?
model: tiny.yaml
profile: { steps: [[4, 1 ms], [64, 8 ms]] }
cluster: { topology: one-node, workers: 2 }
dataset: { samples: 1003 }
job:
  epochs: 3
  evaluate: { every: 1 epoch, samples: 500, batch_per_worker: 50 }
  schedule: { rule: adadamp, batch: 8, dwell: 50, max_batch: 128, loss_samples: 512 }
)");
  const std::string first = folder.path("first.json"), second = folder.path("second.json"),
                    curve = folder.path("seen.csv");
  const Finished before = folder.run({file, "--out", first, "--data", "learnable", "--curve", curve});
  REQUIRE_MESSAGE(before.status == 0, before.err);
  CHECK(before.err.find("it runs without a prediction: " + file +
                        ":1:1: schedule: adadamp follows the loss") != std::string::npos);
  CHECK(run_foretrain({"simulate", file}).status == 2);
  CHECK(test::read_file(curve).find("updates,loss\n0,") == 0);
  const Finished done = folder.run(
      {file, "--out", second, "--data", "learnable", "--costs-from", first, "--set", "job.curve=" + curve});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  // Of the first run nothing is judged beside one that was predicted with its costs.
  const Finished judged = run_foretrain({"validate", first, second, "--json", "-"});
  REQUIRE_MESSAGE(judged.status == 0, judged.err);
  CHECK(judged.err.find("first.json: measured the costs with which other jobs were predicted; left out") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(judged.out);
  REQUIRE(json["jobs"].size() == 1);
  CHECK(json["rows"].size() == 1);
  const RunRecord record = read_record(second);
  std::size_t looks = 0, updates = 0, phases = 0;
  for (const RunEvent& event : record.events) looks += event.what == "adaptation" ? 1 : 0;
  for (const auto& part : json["jobs"][0]["parts"]) {
    const std::string what = part["what"];
    if (what == "looks at the loss") CHECK(part["count"] == looks);
    if (what == "evaluation") CHECK(part["count"] == 3);
    if (what.find("phase") == 0) {
      ++phases;
      updates += part["count"].get<std::size_t>();
      CHECK(part["predicted_before_s"].is_number());  // the same batches after the same updates
    }
    if (what != "rescale" || looks > 1) CHECK(part["measured_s"].get<double>() > 0);
  }
  CHECK(phases > 1);
  CHECK(updates == record.ranks[0].step.size());
  const auto predicted = nlohmann::json::parse(record.prediction->json);
  CHECK(predicted["job"]["updates"] == updates);
}

TEST_CASE("a job of three phases: predicted with the costs of an earlier run, held against its record") {
  const Folder folder;
  const std::string file =
      folder.write("grow.yaml", R"(# Does a doubled batch on twice the workers take as long?
model: tiny.yaml
profile: { steps: [[8, 1 ms], [16, 2 ms]] }
cluster: { topology: one-node, workers: 2 }
dataset: { samples: 128 }
job:
  epochs: 6
  schedule:
    - { from: 0 epoch, batch: 16, workers: 1, learning_rate: 0.1 }
    - { from: 2 epoch, batch: 32, workers: 2, learning_rate: 0.1 }
    - { from: 4 epoch, batch: 64, workers: 2, learning_rate: 0.1 }
  evaluate: { every: 2 epoch, samples: 64 }
  checkpoint: { every: 3 epoch, write: 100 MB/s }
)");
  const std::string costs = folder.path("costs.json"), out = folder.path("grow.json");
  const Finished before = folder.run({file, "--out", costs, "--checkpoint", folder.path("state")});
  REQUIRE_MESSAGE(before.status == 0, before.err);
  const Finished done = folder.run({file, "--out", out, "--checkpoint", folder.path("state"), "--costs-from",
                                    costs, "--set", "job.epochs=8"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(done.err.find("measured before: --set 'job.startup=") != std::string::npos);
  CHECK(done.err.find("measured before: --set 'job.rescale=") != std::string::npos);
  CHECK(done.err.find("measured before: --set 'job.rebatch=") != std::string::npos);
  CHECK(done.err.find("measured before: --set 'job.checkpoint.write=") != std::string::npos);
  const RunRecord record = read_record(out);
  CHECK(record.workers == 1);  // of the first phase, as the row of its step
  CHECK(record.batch_per_worker == 16);

  const Finished judged = run_foretrain({"validate", out, "--json", "-"});
  REQUIRE_MESSAGE(judged.status == 0, judged.err);
  const auto json = nlohmann::json::parse(judged.out);
  CHECK(json["rows"].size() == 1);
  const auto both = nlohmann::json::parse(run_foretrain({"validate", costs, out, "--json", "-"}).out);
  CHECK(both["jobs"].size() == 1);
  CHECK(both["rows"].size() == 1);
  const auto& parts = json["jobs"][0]["parts"];
  const char* names[] = {"phase 1: batch 16 on 1",
                         "phase 2: batch 32 on 2",
                         "phase 3: batch 64 on 2",
                         "evaluation",
                         "checkpoint",
                         "startup",
                         "rescale",
                         "total"};
  const int counts[] = {16, 8, 8, 4, 2, 1, 2, 1};
  REQUIRE(parts.size() == std::size(names));
  double measured = 0, predicted = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CHECK(parts[i]["what"] == names[i]);
    CHECK(parts[i]["count"] == counts[i]);
    const double m = parts[i]["measured_s"], p = parts[i]["predicted_before_s"];
    CHECK(m > 0);
    CHECK(p > 0);
    CHECK(parts[i]["error"].get<double>() == approx(p / m - 1));
    if (i + 1 < parts.size()) {
      measured += m;
      predicted += p;
    }
  }
  // The parts are the whole: nothing of the run is left out of the comparison, nothing counts twice.
  CHECK(parts.back()["measured_s"].get<double>() == approx(measured).epsilon(1e-3));
  CHECK(parts.back()["predicted_before_s"].get<double>() == approx(predicted).epsilon(1e-9));
  // 16 updates of 2 ms each.
  CHECK(parts[0]["predicted_before_s"].get<double>() == approx(0.032));

  const Finished table = run_foretrain({"validate", out});
  CHECK(table.out.find("job grow") != std::string::npos);
  CHECK(table.out.find("phase 3: batch 64 on 2") != std::string::npos);
  CHECK(run_foretrain({"validate", out, "--max-error", "0.0001%"}).err.find("its whole job is off by") !=
        std::string::npos);
  // A record of some steps has no costs of a job.
  const std::string steps = folder.path("steps.json");
  REQUIRE(folder.run({file, "--out", steps, "--steps", "3"}).status == 0);
  CHECK(read_record(steps).ranks.size() == 1);  // the first phase's workers
  const Finished refused = folder.run({file, "--out", out, "--costs-from", steps});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("is no record of a job") != std::string::npos);
}

TEST_CASE("the noise of gradients is measured on the way, and predicts what a batch costs in samples") {
  const Folder folder;
  const std::string file = folder.write("noisy.yaml", scenario(2) + R"(dataset: { samples: 64 }
job: { epochs: 4, samples: { law: gradient_noise, scale: 1000 } }
)");
  const std::string out = folder.path("noisy.json"), next = folder.path("next.json");
  const Finished done = folder.run({file, "--out", out, "--data", "learnable", "--noise-scale", "4"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(done.out.find("gradient noise scale ") != std::string::npos);
  CHECK(done.out.find("8 looks") != std::string::npos);
  CHECK(read_record(out).noise_looks.size() == 8);
  const Finished again = folder.run({file, "--out", next, "--data", "learnable", "--costs-from", out});
  REQUIRE_MESSAGE(again.status == 0, again.err);
  CHECK(again.err.find("measured before: --set 'job.samples.scale=") != std::string::npos);
  CHECK(run_foretrain({"validate", out}).out.find("noise scale") != std::string::npos);
  CHECK(folder.run({file, "--out", out, "--noise-scale", "4"}).status == 2);
}

TEST_CASE("a profile given by its path is known by its digest, and found beside a record that was moved") {
  const Folder folder;
  const std::string file = folder.write("two.yaml", scenario(1)), out = folder.path("two.json");
  const std::string profile = std::string(FORETRAIN_SOURCE_DIR) + "/profiles/h100.json.gz";
  REQUIRE(folder.run({file, "--out", out, "--steps", "3", "--profile", profile}).status == 0);
  RunRecord record = read_record(out);
  CHECK(record.profile_digest == sha256(test::read_file(profile)));
  // As before the digest was kept: the name alone is left.
  record.profile_digest.clear();
  record.overrides = {"profile=/nowhere/profile.json.gz", "model=resnet50", "precision=bf16",
                      "batch={ per_worker: 64 }"};
  std::filesystem::create_directory(folder.path("moved"));
  std::filesystem::copy_file(profile, folder.path("moved/profile.json.gz"));
  write_run_record(record, folder.path("moved/two.json"));
  const Finished judged = run_foretrain({"validate", folder.path("moved"), "--json", "-"});
  REQUIRE_MESSAGE(judged.status == 0, judged.err);
  CHECK(nlohmann::json::parse(judged.out)["rows"][0]["predicted_s"].is_number());
}

// `foretrain validate` as a user types it, on records made by hand.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "execute/run_record_json.hpp"
#include "sim/base/sha256.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;
using nlohmann::json;
using test::Finished;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

// One worker whose step-time profile says 2 ms at batch 4; measured as given, predicted before as given.
RunRecord record(const std::string& name, double measured, double predicted) {
  RunRecord r;
  r.source = "foretrain";
  r.date = "2026-01-01T00:00:00Z";
  r.scenario_name = name;
  r.scenario_yaml =
      "model: { parameters: 1000 }\nprofile: { steps: [[2, 1 ms], [4, 2 ms]] }\nbatch: { per_worker: 4 }\n"
      "cluster: { topology: one-node, workers: 1 }\n";
  r.group = "by-hand";
  r.model = "tiny";
  r.batch_per_worker = 4;
  r.workers = 1;
  RankRecord rank;
  rank.step = {measured, measured, measured};
  r.ranks = {rank};
  PredictionBefore before;
  before.time = r.date;
  before.step = predicted;
  before.low = 0.98 * predicted;
  before.high = 1.02 * predicted;
  before.json = "{}";
  before.digest = sha256(before.json);
  r.prediction = before;
  return r;
}

struct Records : TemporaryFolder {
  Records() {
    write_run_record(record("a", 0.00200, 0.00202), path("a.json"));     // +1 %, hit
    write_run_record(record("b", 0.00200, 0.00192), path("b.json.gz"));  // -4 %, missed
    write("profile.json", "{\"schema\": \"foretrain/profile/1\"}");      // passed over in a folder
    write("summary.json", "{\"schema\": \"foretrain/validation/1\"}");
    write("rows.yaml", "rows: []\n");
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("validate reads a folder and reports errors, JSON and CSV") {
  const Records records;
  const std::string out = records.path("summary.json"), csv = records.path("rows.csv");
  const Finished done = run_foretrain({"validate", records.path(""), "--json", out, "--csv", csv});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(contains(done.out, "-4.00 %"));
  CHECK(done.out.find("-4.00 %") < done.out.find("+1.00 %"));  // worst first
  CHECK(contains(done.out, "group by-hand"));
  const json result = json::parse(test::read_file(records.path("summary.json")));
  CHECK(result["schema"] == "foretrain/validation/1");
  REQUIRE(result["rows"].size() == 2);
  CHECK(result["rows"][0]["scenario"] == "b");
  CHECK(result["rows"][0]["error"].get<double>() == approx(-0.04));
  CHECK(result["rows"][0]["hit"] == false);
  CHECK(result["rows"][0]["predicted_s"].get<double>() == approx(0.002).epsilon(1e-6));  // of today
  CHECK(result["summary"]["rows"] == 2);
  CHECK(result["summary"]["mean_abs_error"].get<double>() == approx(0.025));
  CHECK(result["summary"]["max_abs_error"].get<double>() == approx(0.04));
  CHECK(result["summary"]["mean_error"].get<double>() == approx(-0.015));
  CHECK(result["summary"]["coverage"].get<double>() == approx(0.5));
  CHECK(result["summary"]["interval_width"].get<double>() == approx(0.04));
  CHECK(result["groups"]["by-hand"]["rows"] == 2);
  CHECK(result["now"]["summary"]["max_abs_error"].get<double>() == doctest::Approx(0).epsilon(1e-6));
  CHECK(contains(test::read_file(records.path("rows.csv")), "\nb,by-hand,tiny,fp32,4,1,1,,0.002,"));

  // Again, over its own summary: the same.
  REQUIRE(run_foretrain({"validate", records.path(""), "--json", out}).status == 0);
  CHECK(json::parse(test::read_file(records.path("summary.json"))) == result);
}

TEST_CASE("a row whose profile has gone is of the kind that it was") {
  const TemporaryFolder folder;
  RunRecord gone = record("gone", 0.002, 0.00202);
  gone.scenario_yaml =
      "model: resnet50\nprofile: gone.json.gz\nprecision: bf16\nbatch: { per_worker: 4 }\n"
      "cluster: { topology: nvlink-node, gpus_per_node: 2 }\n";
  gone.machine.compute_capability = "9.0";
  write_run_record(gone, folder.path("gone.json"));
  write_run_record(record("here", 0.002, 0.00206), folder.path("here.json"));
  const Finished done = run_foretrain({"validate", folder.path(""), "--json", "-"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const json result = json::parse(done.out);
  CHECK(result["rows"][0]["kind"] == "given step times, one worker");
  CHECK(result["rows"][1]["kind"] == "images, GPUs of a node");
  CHECK(result["rows"][1]["predicted_s"].is_null());
  CHECK(result["by_kind"]["images, GPUs of a node"]["mean_abs_error"].get<double>() == approx(0.01));
  CHECK(result["by_kind"]["given step times, one worker"]["rows"] == 1);
}

TEST_CASE("validate says once what holds for many rows, and all of it with -v") {
  TemporaryFolder folder;
  for (const char* name : {"a", "b", "c"}) {
    RunRecord r = record(name, 0.002, 0.002);
    r.workers = 2;
    r.prediction->one_worker_step = 0.001;
    write_run_record(r, folder.path(std::string(name) + ".json"));
  }
  const auto count = [](const std::string& text) {
    int found = 0;
    for (std::size_t at = text.find("naive: no measured"); at != std::string::npos;
         at = text.find("naive: no measured", at + 1))
      ++found;
    return found;
  };
  const Finished once = run_foretrain({"validate", folder.path("")});
  CHECK(count(once.err) == 1);
  CHECK(contains(once.err, "2 more (-v)"));
  CHECK(count(run_foretrain({"validate", folder.path(""), "-v"}).err) == 3);
}

TEST_CASE("validate --max-error sets exit status 3") {
  const Records records;
  CHECK(run_foretrain({"validate", records.path(""), "--max-error", "5%"}).status == 0);
  CHECK(run_foretrain({"validate", records.path("a.json"), "--max-error", "1.5 %"}).status == 0);
  const Finished missed = run_foretrain({"validate", records.path(""), "--max-error", "3%"});
  CHECK(missed.status == 3);
  CHECK(contains(missed.err, "b: off by -4.00 %, more than 3 %"));
  CHECK(contains(missed.out, "-4.00 %"));  // the table all the same
}

TEST_CASE("validate tells what is wrong with its input") {
  const Records records;
  CHECK(run_foretrain({"validate"}).status == 2);
  CHECK(run_foretrain({"validate", records.path("none.json")}).status == 2);
  for (const char* bound : {"5", "%", "x%", "-1%", "nan%"}) {
    const Finished wrong =
        run_foretrain({"validate", records.path("a.json"), std::string("--max-error=") + bound});
    CHECK(wrong.status == 2);
    CHECK(contains(wrong.err, "--max-error takes a percentage"));
  }
  const Finished profile = run_foretrain({"validate", records.path("profile.json")});
  CHECK(profile.status == 2);
  CHECK(contains(profile.err, "is a profile, where a run record belongs"));
  records.write("damaged.json", "{\"schema\": \"foretrain/run/1\"}");
  const Finished damaged = run_foretrain({"validate", records.path("")});
  CHECK(damaged.status == 2);
  CHECK(contains(damaged.err, "damaged.json: /: 'source' is missing"));
  CHECK(damaged.out.empty());
  const TemporaryFolder empty;
  CHECK(contains(run_foretrain({"validate", empty.path("")}).err, "holds no run record"));
}

TEST_CASE("validate --profile predicts anew and leaves the predictions made before") {
  const Records records;
  const Finished done =
      run_foretrain({"validate", records.path("a.json"), "--profile", "h200-gpt2", "--json", "-"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  const json result = json::parse(done.out);
  CHECK(result["rows"][0]["predicted_s"].is_null());
  CHECK(result["rows"][0]["predicted_before_s"].get<double>() == approx(0.00202));
  CHECK(contains(done.err, "not predicted now"));
  const Finished joined = run_foretrain(
      {"validate", records.path("a.json"), "--profile", "h100", "--profile", "two-nodes-tcp-10-gbit"});
  REQUIRE_MESSAGE(joined.status == 0, joined.err);
  CHECK_MESSAGE(contains(joined.err, "a measured profile needs its layers"), joined.err);  // both were read
}

TEST_CASE("what is validated is what simulate tells under its table") {
  // The summary that validate writes is the file that simulate looks for below validation/.
  const Records records;
  const TemporaryFolder data;
  std::filesystem::create_directories(data.path("validation"));
  std::filesystem::create_directories(data.path("models"));
  REQUIRE(
      run_foretrain({"validate", records.path(""), "--json", data.path("validation/summary.json")}).status ==
      0);
  records.write("s.yaml", record("s", 1, 1).scenario_yaml);
  test::RunOptions options;
  options.environment = {"FORETRAIN_DATA=" + data.path("")};
  const Finished done = run_foretrain({"simulate", records.path("s.yaml")}, options);
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(contains(done.out, "last validated (given step times, one worker): mean 2.5 %, worst 4.0 %, 2 rows"));
}

TEST_CASE("validate refuses a profile that is not there, and a record that was read before is no repeat") {
  const Records records;
  const Finished unknown = run_foretrain({"validate", records.path(""), "--profile", "nosuch"});
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "--profile nosuch: unknown profile 'nosuch'"));
  std::filesystem::copy_file(records.path("a.json"), records.path("copy-of-a.json"));
  const Finished twice = run_foretrain({"validate", records.path(""), records.path("a.json")});
  REQUIRE_MESSAGE(twice.status == 0, twice.err);
  CHECK(contains(twice.err, "copy-of-a.json is the record "));
  CHECK(contains(twice.err, "a.json is named twice; left out"));
  CHECK_FALSE(contains(twice.out, "\u00b1"));  // no row has repeats
}

TEST_CASE("validate says where --profile is of another device than the run") {
  const TemporaryFolder folder;
  RunRecord run = record("a", 0.020, 0.020);
  run.scenario_yaml =
      "model: resnet50\nprofile: h200\nprecision: bf16\nbatch: { per_worker: 64 }\n"
      "cluster: { topology: nvlink-node, gpus_per_node: 1 }\n";
  run.machine.gpu = "NVIDIA H200";
  write_run_record(run, folder.path("a.json"));
  const std::string said = "the profile is of NVIDIA H100 80GB HBM3, the run of NVIDIA H200";
  CHECK(contains(run_foretrain({"validate", folder.path(""), "--profile", "h100"}).err, said));
  CHECK_FALSE(
      contains(run_foretrain({"validate", folder.path(""), "--profile", "h200"}).err, "another device"));
}

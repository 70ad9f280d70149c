#include "execute/run_record_json.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/input/gunzip.hpp"

using namespace foretrain;
namespace fs = std::filesystem;

namespace {

RunRecord example_record() {
  RunRecord record;
  record.source = "foretrain";
  record.date = "2026-01-01T00:00:00Z";
  record.command = "foretrain run resnet50.yaml --out run.json";
  record.foretrain = "0.1.0";
  record.scenario_name = "resnet50";
  record.scenario_yaml = "model: resnet50\nprofile: h100\n";
  record.overrides = {"batch.per_worker=64"};
  record.group = "nvlink";
  record.repeat = 1;
  record.model = "resnet50";
  record.precision = Precision::bf16;
  record.strategy = "ddp";
  record.batch_per_worker = 64;
  record.workers = 2;
  record.network = "nvlink";
  record.warmup_steps = 10;
  record.profile_digest = std::string(64, 'a');
  record.profile_names = {"h100"};
  record.prediction =
      PredictionBefore{"2026-01-01T00:00:00Z", std::string(64, 'b'), 0.03, 0.029, 0.031, 0.028, 8e9,
                       {"batch", "gpus"},      "{\"schema\": 1}\n"};
  record.parameters = {{"conv1.weight", {64, 3, 7, 7}, "fp32"}};
  record.machine.gpu = "NVIDIA H100";
  record.machine.environment = {{"NCCL_NVLS_ENABLE", "0"}};
  for (int rank = 0; rank < 2; ++rank) {
    RankRecord one;
    one.rank = rank;
    one.step = {0.03, 0.1 + 0.2, 1.0 / 3};
    one.step_host = {0.03, 0.3, 0.3};
    one.buckets = {{2052000, "all_reduce", {0.01, 0.01, 0.01}, {0.02, 0.02, 0.02}}};
    one.warmup = {1.5};
    one.peak_bytes = 8.1e9;
    one.launches = 812;
    one.checksum = 0xfedcba9876543210;
    one.first_loss = 6.9;
    one.loss = {6.5, 6.25, 6.125};
    record.ranks.push_back(one);
  }
  record.events = {{"checkpoint", 1, 2, 100, 128, 2, 1e8}};
  record.monitor = {{"gpu_use", "fraction", 0, 1, {-0.1, 0, 0.1}, {0, 0.5, 1}}};
  record.monitor_cost = 0.001;
  record.findings = {{0.5, "spike", "checkpoint", "step 12 took 3.1 times the median"}};
  return record;
}

std::string findings(const std::string& json) {
  Diagnostics diagnostics;
  const auto record = parse_run_record(json, "r.json", diagnostics);
  CHECK(record.has_value() == diagnostics.ok());
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + "\n";
  return all;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

}  // namespace

TEST_CASE("a run record is the same after writing and reading") {
  const std::string json = run_record_to_json(example_record());
  Diagnostics diagnostics;
  const auto again = parse_run_record(json, "r.json", diagnostics);
  REQUIRE(again);
  CHECK(run_record_to_json(*again) == json);
  CHECK(again->ranks[1].step[1] == 0.1 + 0.2);
  CHECK(again->ranks[0].checksum == 0xfedcba9876543210);
  CHECK(again->ranks[0].buckets[0].finished[2] == 0.02);
  REQUIRE(again->prediction);
  CHECK(again->prediction->json == "{\"schema\": 1}\n");
  CHECK(again->prediction->distance == std::vector<std::string>{"batch", "gpus"});
  CHECK(again->monitor[0].time[0] == -0.1);
  CHECK(again->machine.environment.at("NCCL_NVLS_ENABLE") == "0");
  CHECK(again->complete);

  RunRecord bare = example_record();
  bare.prediction.reset();
  bare.complete = false;
  const auto without = parse_run_record(run_record_to_json(bare), "r.json", diagnostics);
  REQUIRE(without);
  CHECK_FALSE(without->prediction);
  CHECK_FALSE(without->complete);
}

TEST_CASE("run records are compressed by their ending and known by their content") {
  const fs::path folder = fs::temp_directory_path() / ("foretrain_records_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  Diagnostics diagnostics;
  for (const char* name : {"r.json", "r.json.gz"}) {
    write_run_record(example_record(), folder / name);
    const auto again = read_run_record(folder / name, diagnostics);
    REQUIRE(again);
    CHECK(run_record_to_json(*again) == run_record_to_json(example_record()));
  }
  std::ifstream stream(folder / "r.json.gz", std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(stream), {}};
  CHECK(is_gzip(packed));
  std::ofstream(folder / "r.json.gz", std::ios::binary) << packed.substr(0, packed.size() / 2);
  CHECK_FALSE(read_run_record(folder / "r.json.gz", diagnostics));
  CHECK_FALSE(read_run_record(folder / "none.json", diagnostics));
  CHECK(diagnostics.error_count() == 2);
  fs::remove_all(folder);
}

TEST_CASE("a run record is read strictly; errors name file and JSON pointer") {
  const std::string json = run_record_to_json(example_record());
  CHECK(findings(json) == "");
  CHECK(findings(replaced(json, "\"workers\": 2", "\"workers\": \"2\"")) ==
        "r.json: /workers: is string where a whole number belongs\n");
  CHECK(findings(replaced(json, "\"workers\": 2", "\"workers\": 0")) == "r.json: /: has a count below 1\n");
  CHECK(findings(replaced(json, "\"model\": \"resnet50\",\n", "")) == "r.json: /: 'model' is missing\n");
  CHECK(findings(replaced(json, "\"rank\":1", "\"rnk\":1")) ==
        "r.json: /ranks/1: 'rank' is missing\nr.json: /ranks/1: has the unknown member 'rnk'\n");
  CHECK(findings(replaced(json, "\"step_s\":[0.03,", "\"step_s\":[-1,")) ==
        "r.json: /ranks/0: has a negative time\n");
  CHECK(findings(replaced(json, "\"step_s\":[0.03,", "\"step_s\":[0.03,0.03,")) ==
        "r.json: /ranks/0: has step_s and step_host_s of unequal length\n");
  CHECK(findings(replaced(json, "fedcba98", "fedcbag8")) ==
        "r.json: /ranks/0: has a checksum that is no hexadecimal number\n");
  CHECK(findings(replaced(json, "\"high_s\":0.031", "\"high_s\":0.0299")) ==
        "r.json: /prediction: does not hold its step between its bounds\n");
  CHECK(findings(replaced(json, "run/1", "run/2")) ==
        "r.json: is no run record that this program reads: \"schema\" is \"foretrain/run/2\" where "
        "\"foretrain/run/1\" belongs\n");
  CHECK(findings("{\"schema\": \"foretrain/run/1\", }").starts_with("r.json:1:"));
}

TEST_CASE("a truncated or damaged run record never crashes the reader") {
  const std::string json = run_record_to_json(example_record());
  for (std::size_t length = 0; length < json.size(); length += 7) {
    CHECK(findings(json.substr(0, length)) != "");
  }
  RandomStream random(5);
  const std::string letters = "[]{}:,\"0-e. tn";
  for (int round = 0; round < 300; ++round) {
    std::string damaged = json;
    for (int change = 0; change < 3; ++change) {
      damaged[random.next() % damaged.size()] = letters[random.next() % letters.size()];
    }
    findings(damaged);
  }
}

TEST_CASE("names that are no UTF-8 are written all the same; numbers that are not finite are not") {
  RunRecord record = example_record();
  record.ranks[0].host = "node\xff";
  CHECK(findings(run_record_to_json(record)) == "");
  record.ranks[0].step[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(run_record_to_json(record), Error);
}

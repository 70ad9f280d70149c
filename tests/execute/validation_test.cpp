#include "execute/validation.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "execute/validation_text.hpp"
#include "sim/base/sha256.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// Steps of 0.9, 1 and 1.1 times the median on one rank.
FiledRecord record(const std::string& scenario, int workers, double median, double predicted,
                   double half_width) {
  FiledRecord filed;
  filed.file = scenario + ".json";
  RunRecord& r = filed.record;
  r.source = "foretrain";
  r.scenario_name = scenario;
  r.group = "g";
  r.model = "resnet50";
  r.precision = Precision::bf16;
  r.strategy = "ddp";
  r.batch_per_worker = 64;
  r.workers = workers;
  r.network = "nvlink";
  RankRecord rank;
  rank.step = {0.9 * median, median, 1.1 * median};
  rank.peak_bytes = 10e9;
  r.ranks = {rank};
  PredictionBefore before;
  before.step = predicted;
  before.low = predicted - half_width;
  before.high = predicted + half_width;
  before.json = fmt::format(R"({{"step": {{"time_s": {}, "low_s": {}, "high_s": {}}}}})", before.step,
                            before.low, before.high);
  before.digest = sha256(before.json);
  before.peak_bytes = 10.2e9;
  r.prediction = before;
  return filed;
}

Reprediction silent(const FiledRecord&) {
  return {};
}

Validation validated(const std::vector<FiledRecord>& records, const Repredict& repredict = silent) {
  std::vector<std::string> skipped;
  return validate_records(records, repredict, skipped);
}

}  // namespace

TEST_CASE("errors, coverage and widths of rows whose numbers are known") {
  // errors +2 % (hit), -4 % (missed: 96 + 2 < 100), +1 % (hit)
  const Validation v = validated({record("a", 1, 0.100, 0.102, 0.003), record("b", 1, 0.100, 0.096, 0.002),
                                  record("c", 1, 0.200, 0.202, 0.0101)});
  REQUIRE(v.rows.size() == 3);
  CHECK(v.rows[0].scenario == "b");  // worst first
  CHECK(v.rows[1].scenario == "a");
  CHECK(*v.rows[0].error == approx(-0.04));
  CHECK(*v.rows[0].hit == false);
  CHECK(*v.rows[1].hit == true);
  CHECK(v.rows[1].measured == approx(0.1));
  CHECK(v.rows[1].measured_p05 == approx(0.091));  // between the first two of three
  CHECK(v.rows[1].measured_p95 == approx(0.109));
  CHECK(v.summary.rows == 3);
  CHECK(v.summary.mean_abs_error == approx(0.07 / 3));
  CHECK(v.summary.max_abs_error == approx(0.04));
  CHECK(v.summary.mean_error == approx(-0.01 / 3));
  CHECK(v.summary.coverage == approx(2.0 / 3));
  CHECK(v.summary.interval_width == approx(0.006 / 0.102));  // of 0.0588, 0.0417 and 0.1 the median
  CHECK_FALSE(v.summary.naive_mean_abs_error);               // one worker: nothing to be naive about
  CHECK_FALSE(v.summary.skill);
  CHECK(*v.memory_mean_abs_error == approx(0.02));
  REQUIRE(v.by_distance.size() == 1);
  CHECK(v.by_distance[0].name == "in_sample");
}

TEST_CASE("the naive predictor is worked out from the measured step of one worker") {
  // T1 = 90 ms; ring over 2: 100 MB x 2 x 1/2 over 1 GB/s = 100 ms > 60 ms: 30 + 100 = 130 ms
  CHECK(naive_step(0.090, 100e6, 2, 1e9) == approx(0.130));
  CHECK(naive_step(0.090, 100e6, 2, 10e9) == approx(0.090));  // hidden
  CHECK(naive_step(0.090, 100e6, 4, 1e9) == approx(0.180));   // 2 x 3/4 x 100 ms
  FiledRecord two = record("two", 2, 0.100, 0.104, 0.01);
  two.record.line_rate = 1e9;
  two.record.nodes = 2;
  two.record.parameters = {{"w", {5000, 5000}, "fp32"}};  // 100 MB of gradients in fp32
  const Validation v = validated({record("one", 1, 0.090, 0.090, 0.01), two});
  REQUIRE(v.rows.size() == 2);
  CHECK(v.rows[0].scenario == "two");
  REQUIRE(v.rows[0].naive);
  CHECK(*v.rows[0].naive == approx(0.130));
  CHECK_FALSE(v.rows[1].naive);
  CHECK(*v.summary.naive_mean_abs_error == approx(0.30));
  CHECK(*v.summary.skill == approx(1 - 0.04 / 0.30));

  two.record.prediction->one_worker_step = 0.080;
  const Validation alone = validated({two});
  CHECK(*alone.rows[0].naive == approx(0.080 / 3 + 0.1));
  REQUIRE(alone.rows[0].notes.size() == 1);
  CHECK(alone.rows[0].notes[0].find("predicted one stands in") != std::string::npos);
}

TEST_CASE("repeats are joined; rows that do not repeat are shown and their errors do not count") {
  std::vector<FiledRecord> records;
  for (const double factor : {1.0, 1.01, 0.995}) {  // spread 1.5 %
    records.push_back(record("calm", 2, 0.1 * factor, 0.101, 0.002));
    records.back().record.repeat = static_cast<int>(records.size());
  }
  for (const double factor : {1.0, 1.1, 1.03}) {  // spread 10 / 103
    records.push_back(record("restless", 2, 0.1 * factor, 0.2, 0.001));
  }
  const Validation v = validated(records);
  REQUIRE(v.rows.size() == 2);
  CHECK(v.rows[0].scenario == "restless");
  CHECK(v.rows[0].group == "noisy");
  CHECK(v.rows[0].repeat_spread == approx(0.1 / 1.03));
  CHECK(v.rows[0].measured == approx(0.103));
  CHECK(v.rows[1].repeats == 3);
  CHECK(v.rows[1].repeat_spread == approx(0.015));
  CHECK(v.rows[1].group == "g");
  CHECK(v.summary.rows == 1);
  CHECK(v.summary.mean_abs_error == approx(0.01));
  CHECK(v.summary.coverage == approx(0.5));
  REQUIRE(v.groups.size() == 2);
  CHECK(v.groups[0].name == "noisy");
  CHECK(v.groups[0].summary.rows == 1);
  CHECK(v.groups[0].summary.max_abs_error == approx(0.2 / 0.103 - 1));
  CHECK(v.groups[1].name == "g");
}

TEST_CASE("a row counts under each thing that calibration had not seen") {
  FiledRecord far = record("far", 2, 0.1, 0.103, 0.01), near = record("near", 2, 0.1, 0.101, 0.01);
  far.record.prediction->distance = {"batch", "network"};
  const Validation v = validated({far, near});
  REQUIRE(v.by_distance.size() == 3);
  CHECK(v.by_distance[0].name == "batch");
  CHECK(v.by_distance[1].name == "network");
  CHECK(v.by_distance[2].name == "in_sample");
  CHECK(v.by_distance[0].summary.mean_abs_error == approx(0.03));
  CHECK(v.by_distance[2].summary.mean_abs_error == approx(0.01));
}

TEST_CASE("rows of one kind are summed up together") {
  const auto now = [](const FiledRecord& filed) {
    Reprediction r;
    if (filed.record.scenario_name != "unknown") r.kind = filed.record.workers == 1 ? "one" : "two";
    return r;
  };
  std::vector<std::string> skipped;
  const std::vector<FiledRecord> records{record("a", 1, 0.1, 0.101, 0.01), record("b", 1, 0.1, 0.103, 0.01),
                                         record("c", 2, 0.1, 0.110, 0.01),
                                         record("unknown", 2, 0.1, 0.2, 0.01)};
  const Validation v = validate_records(records, now, skipped);
  REQUIRE(v.by_kind.size() == 2);  // worst first
  CHECK(v.by_kind[0].name == "two");
  CHECK(v.by_kind[0].summary.rows == 1);
  CHECK(v.by_kind[1].name == "one");
  CHECK(v.by_kind[1].summary.mean_abs_error == approx(0.02));
  std::string json;
  write_validation_json(v, [&](std::string_view piece) { json += piece; });
  CHECK(json.find("\"by_kind\"") != std::string::npos);
  CHECK(json.find("\"kind\": null") != std::string::npos);
}

TEST_CASE("what the simulator says today stands beside; it counts where nothing was predicted before") {
  FiledRecord foreign = record("foreign", 2, 0.1, 1, 0);
  foreign.record.prediction.reset();
  const auto now = [](const FiledRecord&) {
    Reprediction r;
    r.step = 0.105;
    r.low = 0.099;
    r.high = 0.11;
    r.distance = {"model"};
    return r;
  };
  const Validation v = validated({foreign, record("ours", 2, 0.1, 0.101, 0.002)}, now);
  REQUIRE(v.rows.size() == 2);
  CHECK(v.rows[0].scenario == "foreign");
  CHECK_FALSE(v.rows[0].predicted_before);
  CHECK(*v.rows[0].error == approx(0.05));
  CHECK(*v.rows[0].hit);
  CHECK(v.rows[0].distance == std::vector<std::string>{"model"});
  CHECK(*v.rows[1].error == approx(0.01));
  CHECK(*v.rows[1].predicted == approx(0.105));
  CHECK(v.now.rows == 2);
  CHECK(v.now.mean_abs_error == approx(0.05));

  const Validation none = validated({foreign});
  CHECK_FALSE(none.rows[0].error);
  CHECK(none.summary.rows == 0);
}

TEST_CASE("a prediction that was changed after it was hashed is told") {
  FiledRecord changed = record("changed", 1, 0.1, 0.1, 0.01);
  changed.record.prediction->json = "{ }";
  const Validation v = validated({changed});
  REQUIRE(v.rows[0].notes.size() == 1);
  CHECK(v.rows[0].notes[0].find("not the one that was hashed") != std::string::npos);
}

TEST_CASE("numbers beside the hashed prediction that say something else do not count, and are told") {
  FiledRecord changed = record("changed", 1, 0.1, 0.12, 0.01);
  PredictionBefore& before = *changed.record.prediction;
  before.step = 0.1, before.low = 0.09, before.high = 0.11;
  const Validation v = validated({changed});
  REQUIRE(v.rows[0].error);
  CHECK(*v.rows[0].error == approx(0.2));
  CHECK_FALSE(*v.rows[0].hit);
  REQUIRE(v.rows[0].notes.size() == 1);
  CHECK(v.rows[0].notes[0].find("which is taken") != std::string::npos);
}

TEST_CASE("runs on two machines are two rows, records without steps are left out") {
  FiledRecord here = record("row", 1, 0.1, 0.1, 0.01), there = here, empty = here;
  there.record.machine.identity = "0123456789abcdef";
  empty.record.ranks[0].step.clear();
  std::vector<std::string> skipped;
  const Validation v = validate_records(std::vector<FiledRecord>{here, there, empty}, silent, skipped);
  CHECK(v.rows.size() == 2);
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0] == "row.json: has no counted step");
}

TEST_CASE("JSON has the contract's keys, CSV the same cells, the table every row") {
  FiledRecord two = record("two, quoted", 2, 0.100, 0.104, 0.01);
  two.record.prediction->distance = {"batch", "gpus"};
  const Validation v = validated({two});
  std::string json, csv;
  write_validation_json(v, [&](std::string_view piece) { json += piece; });
  write_validation_csv(v, [&](std::string_view piece) { csv += piece; });
  std::size_t at = 0;
  for (const char* key : {"\"schema\": \"foretrain/validation/1\"",
                          "\"rows\"",
                          "\"scenario\": \"two, quoted\"",
                          "\"group\"",
                          "\"model\"",
                          "\"precision\": \"bf16\"",
                          "\"batch_per_worker\": 64",
                          "\"workers\": 2",
                          "\"nodes\": 1",
                          "\"network\"",
                          "\"measured_s\": 0.1",
                          "\"measured_p05_s\"",
                          "\"measured_p95_s\"",
                          "\"repeat_spread\": 0",
                          "\"predicted_before_s\": 0.104",
                          "\"predicted_s\": null",
                          "\"low_s\"",
                          "\"high_s\"",
                          "\"naive_s\": null",
                          "\"error\"",
                          "\"hit\": true",
                          "\"distance\"",
                          "\"batch\"",
                          "\"gpus\"",
                          "\"summary\"",
                          "\"rows\": 1",
                          "\"mean_abs_error\"",
                          "\"max_abs_error\"",
                          "\"mean_error\"",
                          "\"coverage\": 1",
                          "\"interval_width\"",
                          "\"naive_mean_abs_error\": null",
                          "\"skill\": null",
                          "\"groups\"",
                          "\"g\"",
                          "\"by_distance\""}) {
    const std::size_t found = json.find(key, at);
    CHECK_MESSAGE(found != std::string::npos, key);
    if (found != std::string::npos) at = found;
  }
  CHECK(csv.find("\n\"two, quoted\",g,resnet50,bf16,64,2,1,nvlink,0.1,") != std::string::npos);
  CHECK(csv.find(",true,batch gpus,,\n") != std::string::npos);
  ValidationTableOptions wide;
  wide.style.width = 1000;
  const std::string table = validation_table(v, wide);
  CHECK(table.find("resnet50") != std::string::npos);
  CHECK(table.find("+4.00 %") != std::string::npos);
  CHECK(table.find("batch, gpus") != std::string::npos);
  // In 80 columns every row still, with what matters most.
  const std::string narrow = validation_table(v, {});
  CHECK(narrow.find("+4.0 %") != std::string::npos);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
  // Rows of one batch are told apart.
  Validation captured = v;
  captured.rows[0].now.how = "pad_batch, captured";
  CHECK(validation_table(captured, wide).find("64 pad_batch, captured") != std::string::npos);
  CHECK(validation_table(captured, {}).find("64 pad_batch, captured") != std::string::npos);
}

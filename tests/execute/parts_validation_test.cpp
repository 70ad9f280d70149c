#include "execute/parts_validation.hpp"

#include <doctest/doctest.h>

#include "execute/parts_files.hpp"
#include "sim/base/error.hpp"
#include "sim/network/families.hpp"
#include "sim/training/model_builder.hpp"
#include "sim/training/profile.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/profiles.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// Steps of made_profile: each timed layer 3 passes of 10 us + 1 us a sample, the update 100 us.
double made_step(const Model& model, std::int64_t batch) {
  return test::timed_layers(model) * 3 * (10e-6 + 1e-6 * static_cast<double>(batch)) + 100e-6;
}

const Model& model() {
  static const Model resnet = test::resnet18();
  return resnet;
}

// A profile whose whole steps were measured off by known factors.
std::shared_ptr<Profile> profile_with_steps(const std::vector<std::pair<std::int64_t, double>>& batches) {
  std::vector<std::int64_t> all;
  for (const auto& [batch, factor] : batches) all.push_back(batch);
  auto profile = std::make_shared<Profile>(test::made_profile(model(), all));
  for (const auto& [batch, factor] : batches) {
    StepEntry step;
    step.model = model().name;
    step.precision = Precision::bf16;
    step.batch = batch;
    step.step.median = step.step.low = step.step.high = made_step(model(), batch) * factor;
    step.peak_bytes = 1e9;
    profile->steps.push_back(step);
  }
  return profile;
}

Scenario scenario_of(const std::string& name, int gpus, std::int64_t = 0) {
  if (name != model().name) throw Error(ErrorKind::input, "no such model");
  Scenario scenario;
  scenario.model = std::make_shared<Model>(model());
  scenario.optimizer.momentum = 0.9;
  NvlinkNode family;
  family.gpus_per_node = gpus;
  scenario.cluster.topology = make_topology(family);
  return scenario;
}

const PartsSummary& named(const PartsValidation& v, const std::string& name) {
  for (const PartsSummary& each : v.summaries) {
    if (each.name == name) return each;
  }
  throw std::runtime_error("no summary " + name);
}

}  // namespace

TEST_CASE("whole steps are predicted from the sum of their layers") {
  const auto profile = profile_with_steps({{16, 1.0}, {32, 1.02}, {64, 0.96}});
  const PartsValidation v = validate_parts(profile, {}, scenario_of);
  CHECK(v.problems.empty());
  REQUIRE(v.rows.size() == 6);
  CHECK(v.rows[0].kind == "whole");
  CHECK(v.rows[0].batch == 64);  // worst first
  CHECK(v.rows[0].error() == approx(1 / 0.96 - 1).epsilon(1e-4));
  CHECK(v.rows[2].batch == 16);
  CHECK(std::abs(v.rows[2].error()) < 1e-6);
  const PartsSummary& whole = named(v, "whole");
  CHECK(whole.rows == 3);
  CHECK(whole.max_abs_error == approx(1 / 0.96 - 1).epsilon(1e-4));
  CHECK(whole.mean_error == approx((1 / 1.02 + 1 / 0.96 - 2) / 3).epsilon(1e-3));
}

TEST_CASE("a batch that is left out is predicted from the others, not from itself") {
  const auto profile = profile_with_steps({{16, 1.0}, {32, 1.0}, {64, 1.0}});
  // Only at 32 the operators are twice as slow; left out, nothing of that shows.
  for (OperatorEntry& entry : profile->operators) {
    if (entry.batch != 32) continue;
    for (PassTiming& pass : entry.passes) {
      pass.device.median = pass.device.low = pass.device.high = 2 * pass.device.median;
    }
  }
  const PartsValidation v = validate_parts(profile, {}, scenario_of);
  for (const PartsRow& row : v.rows) {
    if (row.batch != 32) continue;
    if (row.kind == "whole") CHECK(row.error() > 0.9);
    if (row.kind == "left_out") {
      CHECK(std::abs(row.error()) < 1e-3);  // the rule is a straight line
      CHECK_FALSE(row.extrapolated);
      CHECK_FALSE(row.measured_peak);
    }
  }
  CHECK(named(v, "left_out").rows == 1);
  CHECK(named(v, "left_out_at_an_end").rows == 2);
}

TEST_CASE("a step of a length is predicted at that length, and left out with it") {
  const auto reader = [](std::int64_t length) {
    ModelBuilder b("reader", {length}, 40);
    b.take_tokens(40, length);
    b.softmax_cross_entropy("loss", b.linear("output", b.embedding("embedding", b.input(), 8, {}), 40, true));
    Model made = b.finish();
    made.optimizer.momentum = 0.9;
    return made;
  };
  auto profile = std::make_shared<Profile>(test::made_profile(reader(16), {}));
  for (const std::int64_t length : {16, 64}) {
    const Model at = reader(length);
    for (const std::int64_t batch : {4, 8, 16}) {
      StepEntry step;
      step.model = at.name;
      step.precision = Precision::bf16;
      step.batch = batch;
      step.sequence = length;
      step.step.median = 100e-6;
      for (std::size_t l = 1; l < at.layers.size(); ++l) {
        OperatorEntry entry;
        entry.key = operator_key(at, at.layers[l]);
        entry.layer = at.layers[l].name;
        entry.context = at.name;
        entry.precision = Precision::bf16;
        entry.batch = batch;
        entry.sequence = length;
        for (PassTiming& pass : entry.passes) {
          pass.device.median = pass.device.low = pass.device.high =
              1e-7 * static_cast<double>(batch * length);
          pass.launches = 1;
          step.step.median += pass.device.median;
        }
        profile->operators.push_back(std::move(entry));
      }
      profile->steps.push_back(step);
    }
  }
  const PartsValidation found =
      validate_parts(profile, {}, [&](const std::string&, int gpus, std::int64_t sequence) {
        Scenario scenario = scenario_of(model().name, gpus);
        scenario.model = std::make_shared<Model>(reader(sequence));
        return scenario;
      });
  CHECK(found.problems.empty());
  CHECK(named(found, "whole").rows == 6);
  CHECK(named(found, "whole").max_abs_error < 0.02);
  CHECK(named(found, "left_out").rows == 2);
  CHECK(named(found, "left_out_at_an_end").rows == 4);
  CHECK(named(found, "left_out").max_abs_error < 0.02);
  CHECK(parts_table(found).find("8 x 64") != std::string::npos);
}

TEST_CASE("with two batches none can be left out") {
  const PartsValidation v = validate_parts(profile_with_steps({{16, 1.0}, {32, 1.0}}), {}, scenario_of);
  CHECK(v.rows.size() == 2);
}

TEST_CASE("overlapped steps are predicted with and without interference") {
  const auto profile = profile_with_steps({{16, 1.0}, {32, 1.0}});
  InterferenceEntry interference;
  interference.model = model().name;
  interference.precision = Precision::bf16;
  interference.batch = 32;
  interference.ranks = 2;
  interference.bytes = 25 << 20;
  interference.compute_slowdown = {1.2, 1.2, 1.2, 0, 9};
  interference.collective_slowdown = {1.5, 1.5, 1.5, 0, 9};
  profile->interference = {interference};
  OverlapEntry overlap;
  overlap.model = model().name;
  overlap.precision = Precision::bf16;
  overlap.batch = 32;
  overlap.ranks = 2;
  overlap.step.median = made_step(model(), 32);
  const std::vector<OverlapEntry> overlaps{overlap};
  const PartsValidation v = validate_parts(profile, overlaps, scenario_of);
  REQUIRE(v.rows.size() == 3);
  const PartsRow& row = v.rows.back();
  CHECK(row.kind == "overlap");
  CHECK(row.workers == 2);
  REQUIRE(row.without_interference);
  CHECK(row.predicted > *row.without_interference * 1.001);
  CHECK(named(v, "overlap").mean_error > named(v, "overlap_without_interference").mean_error);
}

TEST_CASE("a step of an unknown model is told and the others stay") {
  const auto profile = profile_with_steps({{16, 1.0}});
  profile->steps.push_back(profile->steps[0]);
  profile->steps[1].model = "nowhere";
  const PartsValidation v = validate_parts(profile, {}, scenario_of);
  CHECK(v.rows.size() == 1);
  REQUIRE(v.problems.size() == 1);
  CHECK(v.problems[0] == "nowhere bf16 batch 16 (whole): no such model");
}

TEST_CASE("overlapped steps are read from calibration's checks") {
  const std::string json =
      "{\"schema\": \"foretrain/calibration-check/1\", \"rows\": ["
      "{\"kind\": \"parts\", \"model\": \"m\"},"
      "{\"kind\": \"overlap\", \"model\": \"m\", \"precision\": \"tf32\", \"batch\": 64, \"ranks\": 2,"
      " \"steps\": 50, \"step_low_s\": 0.0199, \"step_high_s\": 0.0201, \"step_s\": 0.02, \"step_p05_s\": "
      "0.019, \"step_p95_s\": 0.021, \"buckets\": [1, 2]}]}";
  CHECK(is_calibration_check(json));
  CHECK_FALSE(is_calibration_check("{\"schema\": \"foretrain/profile/1\"}"));
  Diagnostics diagnostics;
  const auto overlaps = parse_overlaps(json, "c.json", diagnostics);
  CHECK(diagnostics.ok());
  REQUIRE(overlaps.size() == 1);
  CHECK(overlaps[0].precision == Precision::tf32);
  CHECK(overlaps[0].batch == 64);
  CHECK(overlaps[0].ranks == 2);
  CHECK(overlaps[0].p95 == 0.021);
  parse_overlaps("{\"schema\": \"foretrain/calibration-check/1\", \"rows\": [{\"kind\": \"overlap\"}]}",
                 "c.json", diagnostics);
  REQUIRE(diagnostics.error_count() == 1);
  CHECK(diagnostics.errors()[0].text().find("c.json: is no whole check") == 0);
}

TEST_CASE("the parts as JSON, CSV and table") {
  const PartsValidation v = validate_parts(profile_with_steps({{16, 1.0}, {32, 1.02}}), {}, scenario_of);
  std::string json, csv;
  write_parts_json(v, [&](std::string_view piece) { json += piece; });
  write_parts_csv(v, [&](std::string_view piece) { csv += piece; });
  CHECK(json.find("\"schema\": \"foretrain/parts-validation/1\"") != std::string::npos);
  CHECK(json.find("\"measured_peak_bytes\": 1e+09") != std::string::npos);
  CHECK(csv.find("\nwhole,resnet18,bf16,32,1,") != std::string::npos);
  CHECK(parts_table(v).find("whole steps from layers") != std::string::npos);
}

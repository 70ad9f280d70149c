#include "sim/output/json.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/output/example_result.hpp"

using foretrain::JsonWriter;
using foretrain::Result;
using foretrain::test::example_result;
using nlohmann::ordered_json;

namespace {

std::string json_of(std::span<const Result> results) {
  std::string text;
  foretrain::write_json(results, [&](std::string_view piece) { text += piece; });
  return text;
}

std::vector<std::string> keys_of(const ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("a result in JSON has the documented keys") {
  const Result result = example_result();
  const std::string text = json_of({&result, 1});
  CHECK(text.ends_with("}\n"));
  const ordered_json j = ordered_json::parse(text);
  CHECK(j["schema"] == "foretrain/result/1");
  CHECK(keys_of(j) == Keys{"schema",      "version",       "scenario", "question",  "model",    "profile",
                           "precision",   "strategy",      "topology", "kind",      "seed",     "complete",
                           "inputs",      "workers",       "nodes",    "batch",     "step",     "throughput",
                           "scaling",     "communication", "links",    "limiting",  "remedies", "break_even",
                           "sensitivity", "gpu",           "memory",   "sequences", "job",      "warnings",
                           "extrapolated"});
  CHECK(keys_of(j["inputs"]["cluster.network.latency"]) == Keys{"value", "origin", "default"});
  CHECK(j["inputs"]["cluster.network.latency"]["origin"] == "assumed");
  CHECK(keys_of(j["batch"]) == Keys{"global", "per_worker"});
  CHECK(keys_of(j["step"]) ==
        Keys{"time_s", "mean_s", "p05_s", "p50_s", "p95_s", "low_s", "high_s", "breakdown_s"});
  CHECK(keys_of(j["step"]["breakdown_s"]) ==
        Keys{"forward", "backward", "optimizer", "exposed_communication", "waiting", "host", "input"});
  CHECK(keys_of(j["throughput"]) == Keys{"samples_per_s", "unit", "units_per_s"});
  CHECK(keys_of(j["scaling"]) == Keys{"speedup", "efficiency", "baseline_workers"});
  CHECK(keys_of(j["communication"]) ==
        Keys{"bytes_per_worker", "collectives", "busy_s", "exposed_s", "overlap"});
  CHECK(keys_of(j["links"][0]) == Keys{"name", "count", "bandwidth_Bps", "bytes_per_step", "utilisation"});
  CHECK(keys_of(j["limiting"]) == Keys{"kind", "link", "text"});
  CHECK(keys_of(j["remedies"][0]) == Keys{"change", "step_s", "speedup", "cost"});
  CHECK(keys_of(j["break_even"]) == Keys{"bandwidth_Bps_next_node", "bandwidth_Bps_hidden"});
  CHECK(keys_of(j["sensitivity"][0]) == Keys{"input", "change", "step_s", "speedup", "critical"});
  CHECK(keys_of(j["gpu"]) == Keys{"busy", "computing", "communicating", "launches", "launching_s"});
  CHECK(keys_of(j["memory"]) == Keys{"peak_bytes_per_gpu", "parameters", "gradients", "optimizer",
                                     "activations", "workspace", "buckets", "capacity_bytes", "fits"});
  CHECK(keys_of(j["job"]) ==
        Keys{"time_s",    "low_s",      "high_s",   "updates",    "epochs",           "samples",
             "gpu_hours", "cost",       "currency", "price_date", "energy_J",         "parts_s",
             "phases",    "speedup",    "target",   "failures",   "checkpoint_bytes", "samples_law",
             "origin",    "assumption", "answers",  "progress"});
  CHECK(keys_of(j["job"]["parts_s"]) == Keys{"training", "evaluation", "checkpoint", "startup", "rescale",
                                             "input", "logging", "adaptation", "failures"});
  CHECK(keys_of(j["job"]["phases"][0]) == Keys{"epochs", "batch", "workers", "step_s", "updates", "time_s",
                                               "samples", "learning_rate", "learning_rate_end"});
  CHECK(keys_of(j["extrapolated"][0]) == Keys{"what", "asked", "range"});
  CHECK(j["step"]["time_s"].get<double>() == result.step.time);
  CHECK(j["links"].size() == 2);
}

TEST_CASE("what is not known is null, and several results are an array") {
  Result bare;
  bare.scenario = "bare";
  const ordered_json j = ordered_json::parse(json_of({&bare, 1}));
  CHECK(j["job"].is_null());
  CHECK(j["break_even"].is_null());
  CHECK(j["limiting"]["link"].is_null());
  CHECK(j["memory"]["capacity_bytes"].is_null());
  CHECK(j["memory"]["fits"].is_null());
  CHECK(j["links"] == ordered_json::array());

  const std::vector<Result> two{bare, example_result()};
  const ordered_json array = ordered_json::parse(json_of(two));
  REQUIRE(array.is_array());
  REQUIRE(array.size() == 2);
  CHECK(array[0] == j);
}

TEST_CASE("no number that is none gets into the JSON") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -HUGE_VAL}) {
    Result result = example_result();
    result.step.breakdown.host = bad;
    CHECK_THROWS_WITH_AS(json_of({&result, 1}), doctest::Contains("'step.breakdown_s.host'"),
                         foretrain::Error);
  }
}

TEST_CASE("numbers read back to the same bits, in the fewest digits") {
  foretrain::RandomStream random(1);
  for (int i = 0; i < 20'000; ++i) {
    const double number = std::bit_cast<double>(random.next());
    if (!std::isfinite(number) || number == 0) continue;
    const std::string text = foretrain::shortest(number);
    CHECK(std::bit_cast<std::uint64_t>(ordered_json::parse(text).get<double>()) ==
          std::bit_cast<std::uint64_t>(number));
  }
  CHECK(foretrain::shortest(0.1) == "0.1");
  CHECK(foretrain::shortest(-0.0) == "0");
  CHECK(foretrain::shortest(3) == "3");
}

TEST_CASE("any bytes become a JSON string that reads back") {
  foretrain::RandomStream random(2);
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes;
    for (std::uint64_t n = random.next() % 12; n > 0; --n) bytes += static_cast<char>(random.next());
    const auto back = nlohmann::json::parse(foretrain::json_string(bytes)).get<std::string>();
    // Where the bytes are UTF-8 nothing is changed.
    const auto strict = nlohmann::json(bytes);
    bool well_formed = true;
    try {
      static_cast<void>(strict.dump());
    } catch (const nlohmann::json::exception&) {
      well_formed = false;
    }
    CHECK((back == bytes) == well_formed);
  }
  CHECK(foretrain::json_string("a\"b\\c\n\t\x01") == R"("a\"b\\c\n\t\u0001")");
  CHECK(foretrain::json_string("\u00e9\u20ac\U0001F600") == "\"\u00e9\u20ac\U0001F600\"");
}

TEST_CASE("a random tree written member by member equals the tree") {
  // Writes the same tree through the writer and through nlohmann/json.
  foretrain::RandomStream random(3);
  auto grow = [&](auto& self, int depth, JsonWriter& writer) -> ordered_json {
    const std::uint64_t kind = random.next() % (depth > 4 ? 4 : 6);
    if (kind == 0) {
      const bool flag = random.next() % 2 == 0;
      writer.value(flag);
      return flag;
    }
    if (kind == 1) {
      const auto number = static_cast<std::int64_t>(random.next());
      writer.value(number);
      return number;
    }
    if (kind == 2) {
      const double number = random.normal();
      writer.value(number);
      return number;
    }
    if (kind == 3) {
      writer.null();
      return nullptr;
    }
    const int members = static_cast<int>(random.next() % 4);
    ordered_json tree = kind == 4 ? ordered_json::array() : ordered_json::object();
    if (kind == 4) writer.begin_array();
    if (kind == 5) writer.begin_object();
    for (int i = 0; i < members; ++i) {
      const std::string key = "k" + std::to_string(i);
      if (kind == 5) writer.key(key);
      ordered_json child = self(self, depth + 1, writer);
      if (kind == 4) tree.push_back(std::move(child));
      if (kind == 5) tree[key] = std::move(child);
    }
    if (kind == 4) writer.end_array();
    if (kind == 5) writer.end_object();
    return tree;
  };
  for (int i = 0; i < 500; ++i) {
    for (const auto layout : {JsonWriter::Layout::indented, JsonWriter::Layout::compact}) {
      std::string text;
      JsonWriter writer([&](std::string_view piece) { text += piece; }, layout);
      const ordered_json expected = grow(grow, 0, writer);
      ordered_json read = ordered_json::parse(text);
      CHECK(read == expected);
    }
  }
}

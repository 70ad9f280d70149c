#include "sim/output/result_reader.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/output/json.hpp"
#include "tests/output/example_result.hpp"

using foretrain::Error;
using foretrain::read_results;
using foretrain::Result;
using nlohmann::ordered_json;

namespace {

std::string json_of(std::span<const Result> results) {
  std::string text;
  foretrain::write_json(results, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

TEST_CASE("what was written reads back to the same bytes") {
  std::vector<Result> results{foretrain::test::example_result(), Result()};
  results[1].scenario = "bare";
  CHECK(json_of(read_results(json_of(results), "r.json")) == json_of(results));
  const std::string one = json_of({results.data(), 1});
  CHECK(json_of(read_results(one, "r.json")) == one);
}

TEST_CASE("any member that is missing or of another type is named, and nothing crashes") {
  const Result result = foretrain::test::example_result();
  const ordered_json whole = ordered_json::parse(json_of({&result, 1}));
  const ordered_json flat = whole.flatten();
  for (const auto& each : flat.items()) {
    const std::string pointer = each.key();
    if (pointer == "/version") continue;  // not needed to compare
    ordered_json broken = whole;
    broken[ordered_json::json_pointer(pointer)] = ordered_json::object();
    CAPTURE(pointer);
    CHECK_THROWS_WITH_AS(read_results(broken.dump(), "r.json"), doctest::Contains("r.json: "), Error);
  }
  for (const auto& each : whole.items()) {
    const std::string key = each.key();
    // Older results have no sensitivity, no sequences and no kind.
    if (key == "version" || key == "sensitivity" || key == "sequences" || key == "kind") continue;
    ordered_json broken = whole;
    broken.erase(key);
    CAPTURE(key);
    CHECK_THROWS_AS(read_results(broken.dump(), "r.json"), Error);
  }
}

TEST_CASE("what is no result is refused") {
  for (const char* text : {"", "{", "null", "3", "[]", "{}", "[1]", "[null]", R"({"schema": 1})",
                           R"({"schema": "foretrain/profile/1"})", R"({"rows": []})", R"({"rows": 3})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(read_results(text, "r.json"), Error);
  }
  CHECK_THROWS_AS(read_results(std::string(100'000, '['), "r.json"), Error);
}

TEST_CASE("a step whose parts do not sum to it is refused as check refuses it") {
  const Result result = foretrain::test::example_result();
  ordered_json broken = ordered_json::parse(json_of({&result, 1}));
  broken["step"]["time_s"] = -5;
  CHECK_THROWS_WITH_AS(read_results(broken.dump(), "r.json"),
                       doctest::Contains("r.json: /step/time_s: is negative: -5 s"), Error);
  broken["step"]["time_s"] = 5;
  CHECK_THROWS_WITH_AS(read_results(ordered_json::array({broken, broken}).dump(), "r.json"),
                       doctest::Contains("r.json: /1/step/breakdown_s: sums to "), Error);
}

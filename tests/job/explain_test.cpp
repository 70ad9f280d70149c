#include "sim/job/explain.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/output/explanation_report.hpp"

using namespace foretrain;

namespace {

// Two nodes of one GPU; a ring of 100 MB puts 100 MB on the wire each way.
Scenario parsed(const std::string& observed, const Overrides& settings = {}) {
  const std::string text =
      "profile: { steps: [[8, 100 ms]], gradients: 100 MB }\n"
      "batch: { per_worker: 8 }\n"
      "cluster: { topology: star, hosts: 2, bandwidth: 10 Gbit/s, latency: 10 us }\n"
      "strategy: { kind: ddp, gradients: fp32, algorithm: ring }\n"
      "observed: " +
      observed + "\n";
  Diagnostics diagnostics;
  auto scenario = parse_scenario(text, "s.yaml", Catalog({FORETRAIN_SOURCE_DIR}), settings, diagnostics);
  for (const Diagnostic& finding : diagnostics.errors()) MESSAGE(finding.text());
  REQUIRE(scenario);
  return std::move(*scenario);
}

}  // namespace

TEST_CASE("a reading that agrees is kept") {
  const Explanation explanation = explain(parsed("{ step: 150 ms }"));
  REQUIRE(explanation.readings.size() == 1);
  CHECK(explanation.readings[0].consistent);
  CHECK(explanation.readings[0].besides.empty());
}

TEST_CASE("a step that is too long is no straggler's fault, one that is too short may be") {
  const Explanation too_long = explain(parsed("{ step: 50 ms }"));
  REQUIRE(too_long.readings.size() == 1);
  CHECK_FALSE(too_long.readings[0].consistent);
  CHECK(too_long.readings[0].excluded_by.find("step seen: 50") == 0);
  const Explanation too_short = explain(parsed("{ step: 400 ms, gpu_busy: 0.99 }"));
  REQUIRE(too_short.readings.size() == 2);
  CHECK(too_short.readings[0].besides == "a straggler");
  CHECK(too_short.readings[0].consistent);
  CHECK(too_short.readings[1].besides == "input");
  CHECK_FALSE(too_short.readings[1].consistent);  // GPUs were busy
  const Explanation idle = explain(parsed("{ step: 400 ms, gpu_busy: 0.3 }"));
  CHECK(idle.readings[0].consistent);
  CHECK(idle.readings[1].consistent);
}

TEST_CASE("the report tells what agrees, what is excluded by what, and what to measure") {
  Scenario open = parsed("{ step: 150 ms, open: [gradients] }", {"strategy.gradients=fp32"});
  const Explanation explanation = explain(open);
  const std::string text = explanation_text(explanation, {});
  CHECK(text.find("readings agree with everything seen") != std::string::npos);
  CHECK(text.find("fp32 gradients, all-reduce by a ring") != std::string::npos);
}

TEST_CASE("without observations there is nothing to explain") {
  Scenario scenario = parsed("{ step: 150 ms }");
  scenario.observed = nullptr;
  CHECK_THROWS_WITH_AS(explain(scenario), doctest::Contains("has no 'observed'"), Error);
  CHECK_THROWS_WITH_AS(explain(parsed("{ gpu_busy: 1.0 }")), doctest::Contains("the step or the traffic"),
                       Error);
}

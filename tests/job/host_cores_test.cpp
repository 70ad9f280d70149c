#include "sim/job/host_cores.hpp"

#include <doctest/doctest.h>

#include "sim/input/job.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/job/predict_job.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// Two nodes of four GPUs, 64 samples each in 128 ms: a node decodes 256 samples of 2 ms in a step: 4 cores.
Scenario parsed(const Overrides& settings = {}) {
  const std::string text =
      "profile: { steps: [[64, 128 ms]], gradients: 4 MB }\n"
      "batch: { per_worker: 64 }\n"
      "cluster: { topology: ethernet-nodes, nodes: 2, gpus_per_node: 4, network: { bandwidth: 100 Gbit/s, "
      "latency: 5 us } }\n"
      "strategy: { kind: ddp }\n"
      "dataset: { samples: 51200 }\n"
      "input: { sample: 100 kB, decode: 2 ms, workers: 8 }\n"
      "job: { epochs: 2 }\n";
  Diagnostics diagnostics;
  auto scenario = parse_scenario(text, "s.yaml", Catalog({FORETRAIN_SOURCE_DIR}), settings, diagnostics);
  for (const Diagnostic& finding : diagnostics.errors()) MESSAGE(finding.text());
  REQUIRE(scenario);
  return std::move(*scenario);
}

}  // namespace

TEST_CASE("decoding, launching and the collectives' threads share a node's cores") {
  const Scenario scenario = parsed();
  const Result result = predict_job(scenario);
  const CoreNeed need = core_need(scenario, result);
  CHECK(need.decoding == approx(256 * 0.002 / result.step.time));
  CHECK(need.launching == 4);
  CHECK(need.proxies > 0);
  CHECK(need.proxies < 1);
  CHECK(need.total() == 9);
  CHECK(result.job->answers.back().find("A node needs 9 cores") == 0);
  CHECK(core_need(parsed({"host={ processes: one, threads: 2 }"}), result).launching == 2);
}

TEST_CASE("whole cores stay whole however many are asked for") {
  CHECK(whole_cores(2) == 2);
  CHECK(whole_cores(2 + 1e-12) == 2);
  CHECK(whole_cores(2.1) == 3);
  CHECK(whole_cores(-1) == 0);
  CHECK(whole_cores(3.6e10) == 1'000'000'000);
}

TEST_CASE("the smallest number of cores does not slow the step, one less does") {
  const double enough = predict_job(parsed({"host.cores=9"})).job->time;
  const Result fewer = predict_job(parsed({"host.cores=8"}));
  // Eight cores only fill the first batches faster.
  CHECK(enough == approx(predict_job(parsed()).job->time).epsilon(0.01));
  CHECK(fewer.job->time > 1.2 * enough);
  CHECK(fewer.limiting.kind == "input");
  bool is_said = false;
  for (const std::string& warning : fewer.warnings)
    is_said = is_said || warning.find("of 8 cores 3 are left") != std::string::npos;
  CHECK(is_said);
}

// What holds of every scenario, tried on scenarios by chance.
#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "sim/input/catalog.hpp"
#include "sim/input/check.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/job/predict_job.hpp"
#include "sim/job/rehearsal.hpp"
#include "sim/training/step_simulation.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/random_scenarios.hpp"
#include "tests/support/result_checks.hpp"
#include "tests/support/slowdown.hpp"

using namespace foretrain;
using foretrain::test::approx;
using test::Ranges;

namespace {

const Catalog& catalog() {
  static const Catalog shipped({FORETRAIN_SOURCE_DIR});
  return shipped;
}

struct Prediction {
  std::optional<Scenario> scenario;
  std::optional<Result> result;
  std::string error;  // of a scenario that is not predicted
};

// As simulate does. Only errors that are the scenario's or the profile's fault leave it.
Prediction predicted(const std::string& text) {
  Prediction out;
  Diagnostics diagnostics;
  out.scenario = parse_scenario(text, "random.yaml", catalog(), {}, diagnostics);
  if (!out.scenario) {
    out.error = diagnostics.errors().front().text();
    return out;
  }
  try {
    out.result = predict_job(*out.scenario);
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind() != ErrorKind::failure, std::string(error.what()));
    CHECK_MESSAGE(error.kind() != ErrorKind::bound, std::string(error.what()));
    out.error = error.what();
  }
  return out;
}

double step_of(const Scenario& scenario) {
  JobOptions options;
  options.remedies = options.baseline = false;
  return predict_job(scenario, options).step.time;
}

// Whose step can be predicted, without its job and its input.
template <typename Body>
void for_each_step(std::uint64_t seeds, const Body& body) {
  int tried = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string text = test::random_scenario(seed, Ranges::usual);
    CAPTURE(seed);
    CAPTURE(text);
    std::optional<Scenario> scenario = predicted(text).scenario;
    if (!scenario) continue;
    scenario->job = nullptr;
    scenario->input = nullptr;
    try {
      step_of(*scenario);
    } catch (const Error&) {
      continue;
    }
    ++tried;
    body(*scenario);
  }
  CHECK(tried > static_cast<int>(seeds / 4));
}

}  // namespace

TEST_CASE(
    "property: a scenario by chance is predicted or refused; results are whole, the same in every format") {
  int whole = 0;
  constexpr std::uint64_t seeds = 120;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::string text = test::random_scenario(seed, Ranges::usual);
    CAPTURE(seed);
    CAPTURE(text);
    const Prediction made = predicted(text);
    if (!made.result) continue;
    ++whole;
    test::check_result_itself(*made.result);
    test::check_csv_against_json({&*made.result, 1});
  }
  MESSAGE(whole << " of " << seeds << " scenarios are predicted");
  CHECK(whole > static_cast<int>(seeds / 4));
}

TEST_CASE("property: numbers stay in range from 1 B to 1 EB, 1 bit/s to 100 Tbit/s, batches to 1e9") {
  int whole = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string text = test::random_scenario(seed, Ranges::all);
    CAPTURE(seed);
    CAPTURE(text);
    const std::clock_t before = std::clock();
    const Prediction made = predicted(text);
    CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 10 * test::slowdown);
    if (!made.result) continue;
    ++whole;
    test::check_result_itself(*made.result);
  }
  MESSAGE(whole << " of 200 scenarios are predicted");
  CHECK(whole > 20);
}

TEST_CASE("property: check accepts what simulate accepts, and nothing else") {
  for (const Ranges ranges : {Ranges::usual, Ranges::all}) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const std::string text = test::random_scenario(seed, ranges);
      CAPTURE(seed);
      CAPTURE(text);
      Diagnostics diagnostics;
      bool is_accepted = false;
      try {
        const CheckedFile checked = check_text(text, "random.yaml", catalog(), diagnostics);
        if (checked.scenario) rehearse(*checked.scenario, diagnostics);
        is_accepted = diagnostics.ok();
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::unavailable);
      }
      const Prediction made = predicted(text);
      CHECK_MESSAGE(is_accepted == made.result.has_value(), made.error);
    }
  }
}

TEST_CASE("law: more bandwidth is not slower, but where the library chooses otherwise") {
  int changed = 0;
  for_each_step(80, [&](const Scenario& scenario) {
    if (scenario.strategy.fusion.kind == FusionKind::horovod) return;  // what is fused goes by time
    Scenario faster = scenario;
    for (Link& link : faster.cluster.topology.links) link.rate = link.rate * 2;
    faster.cluster.topology.network.bandwidth = faster.cluster.topology.network.bandwidth * 2;
    const StepSimulation before(scenario), after(faster);
    const double step = before.seconds({}), faster_step = after.seconds({});
    if (faster_step <= step * (1 + 1e-9)) return;
    bool is_same = true;
    for (std::size_t c = 0; c < before.collectives().size(); ++c) {
      const CollectiveCost &a = before.collectives()[c].cost, &b = after.collectives()[c].cost;
      is_same = is_same && a.algorithm == b.algorithm && a.protocol == b.protocol;
    }
    ++changed;
    CHECK_MESSAGE(!is_same, "slower by a factor of " << faster_step / step);
  });
  MESSAGE(changed << " steps are slower with more bandwidth, by another choice");
}

TEST_CASE("law: a slower GPU makes no step shorter, slower links none either") {
  for_each_step(100, [](const Scenario& scenario) {
    Scenario slower = scenario;
    auto& factors = slower.cluster.topology.compute_factors;
    factors.resize(slower.cluster.topology.workers.size(), 1.0);
    factors.back() *= 1.5;
    CHECK(step_of(slower) >= step_of(scenario) * (1 - 1e-9));
    Scenario later = scenario;
    for (Link& link : later.cluster.topology.links) link.latency = link.latency * 3.0;
    const double step = step_of(scenario);
    if (scenario.strategy.fusion.kind != FusionKind::horovod) CHECK(step_of(later) >= step * (1 - 1e-9));
  });
}

TEST_CASE("law: k times the measured times give k times the step, without communication") {
  for_each_step(80, [](const Scenario& scenario) {
    if (!scenario.step_times) return;
    Scenario slower = scenario;
    slower.strategy.kind = StrategyKind::independent;
    const double once = step_of(slower);
    StepTimeProfile times = *scenario.step_times;
    for (auto& point : times.points) point.seconds *= 8;
    slower.step_times = std::make_shared<const StepTimeProfile>(times);
    CHECK(step_of(slower) == approx(8 * once).epsilon(1e-6));
  });
}

TEST_CASE("law: a slower link on the critical path changes the answer") {
  int critical = 0;
  for_each_step(80, [&](const Scenario& scenario) {
    const Result before = predict_job(scenario);
    if (before.step.breakdown.exposed_communication < 0.2 * before.step.time || before.limiting.link.empty())
      return;
    Scenario slower = scenario;
    Topology& topology = slower.cluster.topology;
    for (Link& link : topology.links) {
      if (topology.link_classes.name(link.link_class) == before.limiting.link) link.rate = link.rate * 0.25;
    }
    ++critical;
    CHECK(step_of(slower) > before.step.time * 1.01);
  });
  CHECK(critical > 5);
}

TEST_CASE("law: the order of equal ranks changes nothing") {
  int tried = 0;
  for_each_step(120, [&](const Scenario& scenario) {
    const Topology& topology = scenario.cluster.topology;
    const bool is_equal = topology.compute_factors.empty() && !scenario.gpu_types &&
                          topology.workers.size() > 2 && scenario.strategy.kind == StrategyKind::ddp;
    if (!is_equal) return;
    Scenario turned = scenario;
    std::vector<int>& workers = turned.cluster.topology.workers;
    std::reverse(workers.begin(), workers.end());
    ++tried;
    CHECK(step_of(turned) == approx(step_of(scenario)).epsilon(1e-9));
  });
  CHECK(tried > 10);
}

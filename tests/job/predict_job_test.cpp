#include "sim/job/predict_job.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "sim/base/error.hpp"
#include "sim/input/job.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/output/console.hpp"
#include "sim/output/html.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Scenario parsed(const std::string& text, const Overrides& settings = {}) {
  static const Catalog catalog({FORETRAIN_SOURCE_DIR});
  Diagnostics diagnostics;
  auto scenario = parse_scenario(text, "job.yaml", catalog, settings, diagnostics);
  for (const Diagnostic& finding : diagnostics.errors()) MESSAGE(finding.text());
  REQUIRE(scenario);
  return std::move(*scenario);
}

// Workers with 128 samples each; a step takes 78 ms on each and shares 11 MB over the network.
const std::string base =
    "model: { parameters: 2748890 }\n"
    "profile: { steps: [[128, 78 ms], [640, 390 ms]] }\n"
    "cluster: { topology: star, hosts: 25, bandwidth: 10 Gbit/s, latency: 10 us }\n"
    "dataset: { samples: 50000 }\n"
    "optimizer: { kind: sgd, momentum: 0.9, learning_rate: 0.1 }\n";
const std::string growing = base +
                            "job:\n"
                            "  epochs: 200\n"
                            "  last_batch: carry\n"
                            "  price: { amount: 2.50 USD/gpu-hour, date: 2026-11-01 }\n"
                            "  power: 700 W\n"
                            "  workers: { samples_per_worker: 128 }\n"
                            "  schedule:\n"
                            "    - { from: 0 epoch, batch: 128 }\n"
                            "    - { from: 60 epochs, batch: 640 }\n"
                            "    - { from: 120 epochs, batch: 3200 }\n";

double sum_of(const JobPrediction& job) {
  return job.training + job.evaluation + job.checkpoint + job.startup + job.rescale + job.input +
         job.logging + job.adaptation + job.failing;
}

}  // namespace

TEST_CASE("the learning rate is carried along by its law, and plotted") {
  const std::string job =
      "job: { epochs: 20, last_batch: carry, schedule: [{ from: 0 epoch, batch: 128 }] }\n";
  const std::string law = "job.learning_rate=";
  const auto points = [&](const std::string& given, std::string* page = nullptr) {
    const Result result = predict_job(parsed(base + job, {law + given}));
    REQUIRE(result.job);
    CHECK(result.job->progress.size() > 100);
    if (page != nullptr)
      write_html({&result, 1}, std::nullopt, [&](std::string_view piece) { *page += piece; });
    return result.job->progress;
  };
  const double updates = std::round(20 * 50000.0 / 128);
  std::string page;
  double highest = 0;
  for (const JobPoint& point :
       points("{ law: noam, factor: 2, dimension: 512, warmup: 1000 updates }", &page)) {
    const auto k = static_cast<double>(point.updates);
    CHECK(point.learning_rate ==
          approx(2 / std::sqrt(512.0) * std::min(1 / std::sqrt(k), k * std::pow(1000.0, -1.5))));
    highest = std::max(highest, point.learning_rate);
  }
  CHECK(highest == approx(2 / std::sqrt(512.0 * 1000)).epsilon(0.02));
  CHECK(page.find("<h2>Learning rate</h2>") != std::string::npos);
  for (const JobPoint& point : points("{ law: steps, factor: 0.2, at: [6 epochs, 12 epochs] }")) {
    const double before = static_cast<double>(point.updates - 1) / updates * 20;  // of the last update
    if (std::fabs(before - 6) < 0.1 || std::fabs(before - 12) < 0.1) continue;
    CHECK(point.learning_rate == approx(before < 6 ? 0.1 : before < 12 ? 0.02 : 0.004));
  }
  for (const JobPoint& point : points("{ law: cosine, warmup: 500 updates }")) {
    const double done = static_cast<double>(point.updates - 1) / updates;
    const double warm = std::min(1.0, static_cast<double>(point.updates) / 500);
    CHECK(point.learning_rate ==
          approx(0.1 * warm * (1 + std::cos(3.14159265358979 * done)) / 2).epsilon(1e-3).scale(0.01));
  }
}

TEST_CASE("a schedule with growing workers: time, updates, GPU-hours, cost, speedup") {
  const Result result = predict_job(parsed(growing));
  REQUIRE(result.job);
  const JobPrediction& job = *result.job;
  CHECK(result.workers == 1);
  CHECK(result.batch_global == 128);
  CHECK(job.updates == 23'438 + 4687 + 1250);  // 23,437.5 + 4,687.5 + 1,250
  CHECK(job.time == approx(sum_of(job)));
  REQUIRE(job.phases.size() == 3);
  CHECK(job.phases[0].workers == 1);
  CHECK(job.phases[1].workers == 5);
  CHECK(job.phases[2].workers == 25);
  CHECK(job.phases[2].step > job.phases[0].step);
  double gpu_seconds = 0, updates = 0;
  for (const JobPhase& phase : job.phases) {
    gpu_seconds += phase.time * phase.workers;
    updates += static_cast<double>(phase.updates);
    CHECK(phase.time == approx(phase.step * static_cast<double>(phase.updates)));
  }
  CHECK(updates == static_cast<double>(job.updates));
  CHECK(job.gpu_hours == approx(gpu_seconds / 3600));
  CHECK(*job.cost == approx(2.5 * job.gpu_hours));
  CHECK(job.currency == "USD");
  CHECK(job.price_date == "2026-11-01");
  CHECK(*job.energy == approx(700 * gpu_seconds));
  CHECK(job.samples_law == "fixed_epochs");
  CHECK(job.origin == Origin::assumed);
  CHECK(job.assumption == "equal epochs, accuracy not predicted");
  // Against 128 on one worker throughout: 78,125 updates of 78 ms.
  REQUIRE(job.speedup);
  CHECK(job.speedup->updates == approx(78'125.0 / static_cast<double>(job.updates)));
  CHECK(job.speedup->time == approx(78'125 * 0.078 / job.time));
  CHECK(job.speedup->baseline == "the first phase held throughout");
  CHECK(job.low < job.time);
  CHECK(job.high > job.time);
}

TEST_CASE("a named baseline: other keys of the job, or another scenario") {
  const Result result = predict_job(
      parsed(growing, {"job.baseline={ schedule: [{ from: 0 epoch, batch: 640, workers: 5 }] }"}));
  CHECK(result.job->speedup->updates == approx(15'625.0 / static_cast<double>(result.job->updates)));
  CHECK(result.job->speedup->baseline == "the same job with other keys");
}

TEST_CASE("a job without a schedule has the scenario's batch and all workers") {
  const Result result = predict_job(
      parsed(base + "batch: { per_worker: 128 }\njob: { epochs: 2, evaluate: { samples: 10000 } }\n"));
  REQUIRE(result.job);
  CHECK(result.job->updates == 2 * 16);  // 50,000 / 3,200, rounded up
  CHECK(result.job->evaluation > 0);
  CHECK_FALSE(result.job->speedup);
  CHECK(result.workers == 25);
}

TEST_CASE("a budget of GPU-hours buys as many workers as it pays for") {
  const std::string fixed =
      base + "batch: { global: 3200 }\njob: { epochs: 10, workers: { budget: 0.095 gpu-hours } }\n";
  const Result result = predict_job(parsed(fixed));
  CHECK(result.job->gpu_hours <= 0.095);
  CHECK(result.job->phases[0].workers < 25);
  const Result rich = predict_job(parsed(fixed, {"job.workers.budget=1000 gpu-hours"}));
  CHECK(rich.job->phases[0].workers == 25);
}

TEST_CASE("time to a target, with the spread of the curve's runs") {
  Scenario scenario = parsed(base + "batch: { per_worker: 128 }\njob: { epochs: 10, last_batch: drop }\n");
  auto job = std::make_shared<Job>(*scenario.job);
  auto curve = std::make_shared<Curve>();
  // Reaches 2.0 at update 50 and 60; the second run rises above it once more.
  curve->runs = {{{0, 4.0}, {100, 0.0}}, {{0, 5.0}, {60, 2.0}, {80, 2.5}, {100, 1.5}}};
  job->curve = curve;
  job->target = Target{false, 2.0};
  scenario.job = job;
  const Result result = predict_job(scenario);
  REQUIRE(result.job->target);
  const JobTarget& target = *result.job->target;
  CHECK(target.reached);
  CHECK(target.runs == 2);
  CHECK(target.updates == approx(55));
  CHECK(target.low < target.time);
  CHECK(target.high > target.time);
  CHECK(target.high == approx(100 * result.job->phases[0].step).epsilon(0.02));
  CHECK(result.job->progress.back().value == doctest::Approx(0.0));
}

TEST_CASE("a target that is met at once, never, after the job or by some runs alone is told apart") {
  const Scenario scenario =
      parsed(base + "batch: { per_worker: 128 }\njob: { epochs: 10, last_batch: drop }\n");
  const auto line = [&](double value, const std::vector<std::vector<std::pair<double, double>>>& runs) {
    Scenario changed = scenario;
    auto job = std::make_shared<Job>(*scenario.job);
    auto curve = std::make_shared<Curve>();
    curve->runs = runs;
    job->curve = curve;
    job->target = Target{false, value};
    changed.job = job;
    const std::string text =
        console_text(std::vector<Result>{predict_job(changed)}, {{200, false, false}, {}, {}, {}, {}});
    const std::size_t at = text.find("  target");
    return text.substr(at, text.find('\n', at) - at);
  };
  CHECK(line(5, {{{0, 4.0}, {100, 0.0}}}) == "  target    loss 5 is met where the curve begins");
  CHECK(line(-1, {{{0, 4.0}, {100, 0.0}}}) == "  target    loss -1 is not reached on the curve");
  CHECK(line(2, {{{0, 4.0}, {1e9, 0.0}}}).find("loss 2 takes 500000000 updates: the job ends after ") !=
        std::string::npos);
  CHECK(line(2, {{{0, 4.0}, {100, 0.0}}, {{0, 4.0}, {100, 3.0}}}).ends_with("of 2 runs): not by every run"));
}

TEST_CASE("a step that waits for its samples is limited by input") {
  const Result result = predict_job(
      parsed(base + "batch: { per_worker: 128 }\ninput: { read: 50 MB/s, sample: 110 kB, prefetch: 2 }\n"));
  CHECK(result.limiting.kind == "input");
  CHECK(result.step.breakdown.input > 0);
  CHECK(result.step.breakdown.total() == approx(result.step.time));
  CHECK(result.step.time == approx(128 * 110e3 / 50e6));
  // Reading is the limit: no other remedy helps, and more workers that load do not either.
  CHECK(result.remedies.empty());
}

TEST_CASE("where decoding is the limit more workers that load are the best remedy, by as much as it says") {
  const std::string text = base + "batch: { per_worker: 128 }\n";
  const std::string input = "input: { sample: 110 kB, decode: 4 ms, workers: ";
  const Result slow = predict_job(parsed(text + input + "4 }\n"));  // 128 ms a batch, 78 ms a step
  CHECK(slow.limiting.kind == "input");
  REQUIRE_FALSE(slow.remedies.empty());
  const Remedy& best = slow.remedies.front();
  CHECK(best.change == "6 workers a node that load");
  const Result quick = predict_job(parsed(text + input + "6 }\n"));
  CHECK(best.step == approx(quick.step.time));
  CHECK(best.speedup == approx(slow.step.time / quick.step.time));
  for (const Remedy& remedy : slow.remedies) {
    CHECK((remedy.change == best.change || remedy.step >= slow.step.time * (1 - 1e-9)));
  }
  // As many as the host has cores for.
  const Result few =
      predict_job(parsed(text + input + "4 }\nhost: { processes: per_gpu, threads: 1, cores: 7 }\n"));
  REQUIRE_FALSE(few.remedies.empty());
  CHECK(few.remedies.front().change.starts_with("5 workers"));
}

TEST_CASE("a checkpoint holds parameters and the optimizer's state") {
  CHECK(checkpoint_bytes(parsed(base + "batch: { per_worker: 128 }\n")) == 8.0 * 2'748'890);
  CHECK(checkpoint_bytes(parsed(base + "batch: { per_worker: 128 }\n", {"optimizer={ kind: adam }"})) ==
        12.0 * 2'748'890);
}

TEST_CASE("what has no effect on a prediction is said of the prediction, not of the run") {
  const Scenario scenario = parsed(base + "batch: { per_worker: 128 }\nexecution: { deterministic: true }\n");
  CHECK(scenario.warnings.empty());
  const Result result = predict_job(scenario);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0] == "deterministic: has no effect on the prediction yet; run obeys it");
}

TEST_CASE("schedules that cannot be are refused with their place") {
  auto errors = [](const std::string& job) {
    static const Catalog catalog({FORETRAIN_SOURCE_DIR});
    Diagnostics diagnostics;
    CHECK_FALSE(
        parse_scenario(base + "job: { epochs: 10, " + job + " }\n", "job.yaml", catalog, {}, diagnostics));
    std::string all;
    for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + "\n";
    return all;
  };
  auto contains = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  contains(errors("schedule: [{ from: 1 epoch, batch: 8 }]"), "the first phase begins at '0 epoch'");
  contains(errors("schedule: [{ from: 0 epoch, batch: 8 }, { from: 5 epochs, batch: 9 }, { from: 5 epochs, "
                  "batch: 10 }]"),
           "phases follow each other");
  contains(errors("schedule: [{ from: 0 epoch, batch: 50001 }]"), "above the data set");
  contains(errors("schedule: [{ from: 0 epoch, batch: 64, workers: 26 }]"),
           "a phase wants 26, the cluster has 25");
  contains(errors("schedule: { rule: geodamp, batch: 128 }"), "geodamp needs 'factor'");
  contains(errors("schedule: { rule: padadamp, batch: 128, rate: 1, factor: 2 }"),
           "factor: padadamp has none");
  CHECK_THROWS_WITH_AS(
      predict_job(parsed(base + "job: { epochs: 10, schedule: { rule: adadamp, batch: 128 } }\n")),
      doctest::Contains("adadamp follows the loss, which is not known before a run"), Error);
  contains(errors("schedule: { rule: geodamp, batch: 128, factor: 5, delay: 2 epochs }"),
           "above the data set");
  contains(errors("learning_rate: { law: noam }, schedule: [{ from: 0 epoch, batch: 8 }]"),
           "noam needs its warm-up");
  contains(errors("checkpoint: { every: 5, write: 1 GB/s }, schedule: [{ from: 0 epoch, batch: 8 }]"),
           "has no unit");
}

TEST_CASE("GeoDamp grows by a factor and the learning rate falls beyond the largest batch") {
  const Scenario scenario = parsed(base +
                                       "job: { epochs: 200, schedule: { rule: geodamp, batch: 128, factor: "
                                       "5, delay: 60 epochs, max_batch: 5120, "
                                       "samples_per_worker: 128 } }\n",
                                   {"cluster.hosts=125"});
  const auto& phases = scenario.job->schedule->phases;
  REQUIRE(phases.size() == 4);
  CHECK(phases[1].batch == 640);
  CHECK(phases[2].batch == 3200);
  CHECK(phases[3].batch == 5120);
  CHECK(phases[3].learning_rate_factor == approx(5120.0 / 16'000));
  const Result result = predict_job(scenario);
  CHECK(result.job->phases[3].workers == 40);
  CHECK(result.job->phases[3].learning_rate == approx(0.1 * 0.32));
}

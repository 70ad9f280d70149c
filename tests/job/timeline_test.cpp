#include "sim/job/timeline.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/error.hpp"
#include "sim/job/input_supply.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// One worker whose step of a batch of 100 takes 100 ms: 1 ms a sample, a third of it forward.
struct Given {
  Scenario scenario;
  Job job;
  JobTimelineInput input;
  std::unique_ptr<StepShapes> shapes;

  explicit Given(double epochs = 1, std::int64_t samples = 100'000, int workers = 1) {
    scenario.cluster = test::made_scenario(test::tiny_cnn(), StrategyKind::independent, workers, 1).cluster;
    scenario.strategy.kind = StrategyKind::independent;
    auto times = std::make_shared<StepTimeProfile>();
    times->points = {{100, 0.1, 0}, {1000, 1.0, 0}};
    times->gradient_bytes = 4e6;
    scenario.step_times = times;
    shapes = std::make_unique<StepShapes>(scenario);
    job.epochs = epochs;
    input.schedule = {&job, samples, 100, workers, 0, 0.1};
    input.shapes = shapes.get();
    input.checkpoint_bytes = 1e9;
  }
  JobTimeline run() const { return simulate_timeline(input); }
};

double seconds(const Elapsed& time) {
  return time.in_seconds();
}

}  // namespace

TEST_CASE("a plain job takes its updates' time") {
  Given given;
  const JobTimeline out = given.run();
  CHECK(out.updates == 1000);
  CHECK(seconds(out.total) == approx(100));
  CHECK(out.gpu_seconds == approx(100));
  CHECK(out.total == out.parts.sum());
  REQUIRE(out.phases.size() == 1);
  CHECK(out.phases[0].updates == 1000);
  CHECK(out.phases[0].epochs == approx(1));
}

TEST_CASE("parts of a job sum to the whole, each once as often as it is due") {
  Given given(10);
  Job& job = given.job;
  job.startup = 7;
  // 50,000 samples at 100 a pass, each 1/3 of a step: 16.67 s, every two epochs.
  job.evaluate = Evaluation{{Interval::Unit::epochs, 2}, 50'000};
  // 1 GB at 0.5 GB/s every 2,000 updates.
  job.checkpoint = Checkpoint{{Interval::Unit::updates, 2000}, Rate(0.5e9), {}};
  job.log = Logging{{Interval::Unit::updates, 300}, 0.25};
  job.warmup = WarmUp{50, 3};
  const JobTimeline out = given.run();
  CHECK(seconds(out.parts.training) == approx(1000));
  CHECK(out.evaluations == 5);
  CHECK(seconds(out.parts.evaluation) == approx(5 * 500 * 0.1 / 3));
  CHECK(out.checkpoints == 5);
  CHECK(seconds(out.parts.checkpoint) == approx(5 * 2));
  CHECK(seconds(out.parts.logging) == approx(33 * 0.25));
  CHECK(seconds(out.parts.startup) == approx(7 + 50 * 0.2));
  CHECK(out.total == out.parts.sum());
  job.checkpoint->every = {Interval::Unit::time, 100};
  CHECK(given.run().checkpoints >= 10);
  CHECK(given.run().checkpoints <= 12);
}

TEST_CASE("an asynchronous checkpoint blocks for its snapshot, or for the write before") {
  Given given;
  given.job.checkpoint =
      Checkpoint{{Interval::Unit::updates, 200}, Rate(0.1e9), {}, true, Rate(10e9), Rate()};
  // A write takes 10 s and 200 updates 20 s: five snapshots of 0.1 s, and the last write at the end.
  JobTimeline out = given.run();
  CHECK(seconds(out.parts.checkpoint) == approx(5 * 0.1 + 10));
  // Written at 40 MB/s: 25 s. Every write but the first holds up the next snapshot: 25 - 20 s each; at the
  // end the last one.
  given.job.checkpoint->write = Rate(0.04e9);
  out = given.run();
  CHECK(seconds(out.parts.checkpoint) == approx(5 * 0.1 + 4 * 5 + 25));
  CHECK(out.total == out.parts.sum());
}

TEST_CASE("a change of workers or batch waits for the checkpoint that is being written") {
  Given given(2, 100'000, 4);
  given.job.schedule.emplace();
  given.job.schedule->phases = {{{Interval::Unit::epochs, 0}, 100, 1, {}, 1},
                                {{Interval::Unit::epochs, 1}, 400, 4, {}, 1}};
  // A snapshot of 0.1 s at the end of the first phase; its write takes 10 s.
  given.job.checkpoint =
      Checkpoint{{Interval::Unit::updates, 1000}, Rate(0.1e9), {}, true, Rate(10e9), Rate()};
  JobTimeline out = given.run();
  CHECK(seconds(out.parts.checkpoint) == approx(0.1 + 10));
  CHECK(out.checkpoints == 1);
  CHECK(out.total == out.parts.sum());
  given.job.schedule->phases[1].workers = 1;
  out = given.run();
  CHECK(seconds(out.parts.checkpoint) == approx(0.1 + 10));
}

TEST_CASE("a change of workers costs its time, and GPU time counts those at work") {
  Given given(2, 100'000, 4);
  given.job.schedule.emplace();
  given.job.schedule->phases = {{{Interval::Unit::epochs, 0}, 100, 1, {}, 1},
                                {{Interval::Unit::epochs, 1}, 400, 4, {}, 1}};
  given.job.rescale = 30;
  const JobTimeline out = given.run();
  CHECK(seconds(out.parts.training) == approx(100 + 25));
  CHECK(seconds(out.parts.rescale) == approx(30));
  CHECK(out.gpu_seconds == approx(100 + 4 * (25 + 30)));
  REQUIRE(out.phases.size() == 2);
  CHECK(out.phases[1].workers == 4);
  CHECK(out.phases[1].updates == 250);
}

TEST_CASE("a change of the batch alone costs its own time, a short last batch none") {
  Given given(3, 1050);
  given.job.schedule.emplace();
  given.job.schedule->phases = {{{Interval::Unit::epochs, 0}, 100, 1, {}, 1},
                                {{Interval::Unit::epochs, 1}, 200, 1, {}, 1},
                                {{Interval::Unit::epochs, 2}, 400, 1, {}, 1}};
  given.job.rebatch = 3;
  given.job.rescale = 1000;  // its workers stay
  const JobTimeline out = given.run();
  CHECK(out.updates == 11 + 6 + 3);
  CHECK(seconds(out.parts.rescale) == approx(2 * 3));
  CHECK(out.total == out.parts.sum());
}

TEST_CASE("an input pipeline: the slower of reading and training") {
  // 100 samples of 1 MB at 500 MB/s: 0.2 s a batch, twice the step.
  InputPipeline pipeline;
  pipeline.read = Rate(500e6);
  pipeline.cached = Rate(1e12);
  pipeline.sample = Bytes(1'000'000);
  Given given(2);
  given.input.input = &pipeline;
  // First epoch: 1,000 batches at 0.2 s and the last step; the second from memory.
  JobTimeline out = given.run();
  CHECK(seconds(out.total) == approx(1000 * 0.2 + 0.1 + 100).epsilon(1e-3));
  CHECK(seconds(out.parts.training) == approx(200));
  pipeline.prefetch = 0;
  pipeline.cached = pipeline.read;
  out = given.run();
  CHECK(seconds(out.total) == approx(2 * 1000 * 0.3));
  pipeline.decode = 0.01;  // 1 s of cores a batch
  pipeline.workers = 4;
  pipeline.prefetch = 2;
  out = given.run();
  CHECK(seconds(out.total) == approx(2000 * 0.25).epsilon(1e-3));
}

TEST_CASE("prefetched batches: the closed form is the recursion") {
  for (const double supply : {0.05, 0.099, 0.1, 0.13, 0.4}) {
    for (const int depth : {1, 2, 8}) {
      Supply at_once{static_cast<double>(depth), depth}, one_by_one = at_once;
      double sum = 0;
      for (int i = 0; i < 50; ++i) sum += one_by_one.spend(1, 0.1, supply);
      CHECK(at_once.spend(50, 0.1, supply) == approx(sum).epsilon(1e-12));
    }
  }
}

TEST_CASE("every step replayed by itself agrees with the fast path to 1e-9") {
  // 200 epochs of 50,000 at 128: 78,125 updates with everything in between.
  Given given(200, 50'000);
  given.input.schedule.batch = 128;
  given.job.last_batch = LastBatch::carry;
  given.job.evaluate = Evaluation{{Interval::Unit::epochs, 1}, 10'000};
  given.job.checkpoint = Checkpoint{{Interval::Unit::time, 777}, Rate(1e9), {}, true, Rate(10e9), Rate()};
  given.job.log = Logging{{Interval::Unit::updates, 100}, 0.02};
  const JobTimeline fast = given.run();
  given.input.every_step = true;
  given.input.noise = false;
  const JobTimeline slow = given.run();
  CHECK(fast.updates == 78'125);
  CHECK(slow.updates == 78'125);
  CHECK(slow.events > 78'125);
  CHECK(fast.events < 10'000);
  CHECK(seconds(slow.total) == approx(seconds(fast.total)).epsilon(1e-9));
  CHECK(slow.evaluations == fast.evaluations);
  CHECK(slow.checkpoints == fast.checkpoints);
}

TEST_CASE("whole epochs at once agree with their updates one by one") {
  for (const LastBatch last : {LastBatch::keep, LastBatch::drop}) {
    CAPTURE(std::string(name_of(last)));
    Given given(300, 1050);  // ten batches and a half each
    given.job.last_batch = last;
    given.job.schedule.emplace();
    given.job.schedule->phases = {{{Interval::Unit::epochs, 0}, 100, 1, 0.1, 1},
                                  {{Interval::Unit::epochs, 70.5}, 200, 1, 0.2, 1},
                                  {{Interval::Unit::updates, 1500}, 300, 1, 0.3, 1}};
    given.job.learning_rate.kind = LearningRateLaw::Kind::cosine;
    given.job.evaluate = Evaluation{{Interval::Unit::epochs, 7}, 500};
    given.job.checkpoint = Checkpoint{{Interval::Unit::time, 33}, Rate(1e9), {}, true, Rate(10e9), Rate()};
    given.job.log = Logging{{Interval::Unit::updates, 333}, 0.02};
    given.job.warmup = WarmUp{13, 3};
    const JobTimeline fast = given.run();
    given.input.every_step = true;
    given.input.noise = false;
    const JobTimeline slow = given.run();
    CHECK(fast.events < slow.events / 2);
    CHECK(fast.updates == slow.updates);
    CHECK(fast.samples == slow.samples);
    CHECK(fast.evaluations == slow.evaluations);
    CHECK(fast.checkpoints == slow.checkpoints);
    CHECK(seconds(fast.total) == approx(seconds(slow.total)).epsilon(1e-12));
    REQUIRE(fast.phases.size() == slow.phases.size());
    for (std::size_t i = 0; i < fast.phases.size(); ++i) {
      CHECK(fast.phases[i].updates == slow.phases[i].updates);
      CHECK(fast.phases[i].time == approx(slow.phases[i].time).epsilon(1e-12));
      CHECK(fast.phases[i].learning_rate_end == approx(slow.phases[i].learning_rate_end).epsilon(1e-12));
    }
  }
}

TEST_CASE("failures: Daly's expected time") {
  // J. T. Daly, A higher order estimate of the optimum checkpoint interval (2006), equation 13 without its
  // last term: M exp(R/M) (exp((t + d)/M) - 1) T/t for a job of T seconds, saved every t with d each.
  Given given(100);
  given.job.checkpoint = Checkpoint{{Interval::Unit::updates, 500}, Rate(0.5e9), {}, false, Rate(), Rate()};
  given.job.failures = Failures{300, Failures::Unit::job, 20};
  const double m = 300, r = 20, t = 50, d = 2, work = 10'000;
  const double expected = m * std::exp(r / m) * (std::exp((t + d) / m) - 1) * work / t;
  double sum = 0, failures = 0;
  constexpr int draws = 200;
  for (int draw = 0; draw < draws; ++draw) {
    given.input.draw = static_cast<std::uint64_t>(draw);
    const JobTimeline out = given.run();
    CHECK(out.updates == 100'000);
    CHECK(seconds(out.total) == approx(seconds(out.parts.sum()) + seconds(out.failing)));
    CHECK(seconds(out.parts.training) == approx(work));
    sum += seconds(out.total);
    failures += static_cast<double>(out.failures);
  }
  CHECK(sum / draws == approx(expected).epsilon(0.02));
  CHECK(failures / draws == approx(expected / m).epsilon(0.05));
}

TEST_CASE("the same seed gives the same job") {
  Given given(100);
  given.job.checkpoint = Checkpoint{{Interval::Unit::updates, 500}, Rate(0.5e9), {}};
  given.job.failures = Failures{300, Failures::Unit::job, 20};
  CHECK(given.run().total == given.run().total);
  const Elapsed first = given.run().total;
  given.input.seed = 2;
  CHECK(given.run().total != first);
}

TEST_CASE("a job that cannot end says so") {
  Given given(100);
  given.job.failures = Failures{10, Failures::Unit::job, 1};
  CHECK_THROWS_WITH_AS(given.run(), doctest::Contains("never ends"), Error);
}

TEST_CASE("a year on 16,384 GPUs with failures") {
  // Steps of 10 s, 3.15 million of them; a GPU fails in 50,000 h, all of them every three hours; saved twice
  // an hour.
  Given given(1, 3'153'600'000, 1);
  given.scenario.cluster =
      test::made_scenario(test::tiny_cnn(), StrategyKind::independent, 16'384, 1).cluster;
  given.input.schedule.available = 16'384;
  given.input.schedule.batch = 16'384;
  given.input.gpus_per_node = 8;
  auto times = std::make_shared<StepTimeProfile>();
  times->points = {{1, 10, 0}};
  times->gradient_bytes = 4e6;
  given.scenario.step_times = times;
  given.input.schedule.samples = 16'384LL * 3'153'600;
  given.job.checkpoint = Checkpoint{{Interval::Unit::time, 1800}, Rate(10e9), {}};
  given.job.failures = Failures{50'000 * 3600.0, Failures::Unit::gpu, 300};
  const JobTimeline out = given.run();
  CHECK(out.updates == 3'153'600);
  CHECK(seconds(out.parts.training) == approx(365 * 86'400.0));
  CHECK(out.failures > 2500);
  CHECK(out.failures < 4500);
  CHECK(seconds(out.failing) > 0.05 * seconds(out.parts.training));
  CHECK(out.events < 200'000);
  // Nor do short epochs count: two updates each, the second a short one.
  given.input.schedule.samples = 16'384 + 8'192;
  given.job.epochs = 3'153'600.0 / 2;
  const JobTimeline epochs = given.run();
  CHECK(epochs.updates == 3'153'600);
  CHECK(epochs.events < 200'000);
}

TEST_CASE("AdaDamp pays for looking at the loss") {
  Given given(4);
  auto curve = std::make_shared<Curve>();
  curve->runs = {{{0, 4.0}, {4000, 1.0}}};
  given.job.curve = curve;
  given.job.schedule.emplace();
  given.job.schedule->rule = Schedule::Rule::adadamp;
  given.job.schedule->batch = 100;
  given.job.schedule->dwell = 500;
  given.job.schedule->loss_samples = 100'000;
  const JobTimeline out = given.run();
  // Each look is a third of an epoch's training.
  const double looks = std::ceil(static_cast<double>(out.updates) / 500);
  CHECK(seconds(out.parts.adaptation) == approx(looks * 100 / 3).epsilon(0.01));
  CHECK(seconds(out.parts.training) == approx(400).epsilon(0.01));
  CHECK(out.phases.size() > 2);
}

TEST_CASE("steps between simulated batches are interpolated") {
  Given given;
  auto times = std::make_shared<StepTimeProfile>();
  times->points = {{10, 0.05, 0}, {1000, 1.4, 0}};
  times->gradient_bytes = 4e6;
  given.scenario.step_times = times;
  StepShapes exact(given.scenario), among_many(given.scenario);
  for (std::int64_t batch = 1; batch < 3000; batch += 7) {
    CHECK(among_many.of(batch, 1, true).mean == approx(exact.of(batch, 1).mean).epsilon(1e-3));
  }
  CHECK(among_many.simulated() < exact.simulated());
}

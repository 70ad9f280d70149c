#include "execute/run_session.hpp"

#include "execute/prediction.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "device/reference/backend.hpp"
#include "sim/training/buckets.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

const char* no_environment(const char*) {
  return nullptr;
}

struct Runner {
  std::unique_ptr<device::Backend> backend = device::reference::make_backend();
  RunSession session{*backend, LaunchEnvironment{}, no_environment};
  RunOptions options;
  RunCallbacks callbacks;

  RunRecord run(const Scenario& scenario) {
    RunRecord record;
    session.run(scenario, options, callbacks, record);
    return record;
  }
};

double sum(const std::vector<double>& values) {
  double total = 0;
  for (double value : values) total += value;
  return total;
}

}  // namespace

TEST_CASE("a run measures every step on every rank, and phases on every k-th") {
  Runner runner;
  runner.options.rank.length = {10, 3};
  runner.options.rank.phase_every = 4;
  Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 2, 4);
  scenario.strategy.fusion.first_bucket = Bytes(256);
  scenario.strategy.fusion.bucket = Bytes(4096);
  const RunRecord record = runner.run(scenario);
  CHECK(record.complete);
  CHECK(record.model == "tiny-cnn");
  CHECK(record.strategy == "ddp");
  CHECK(record.workers == 2);
  CHECK(record.batch_per_worker == 4);
  CHECK(record.parameters.size() == scenario.model->parameters.size());
  CHECK(record.parameters[0].name == "conv1.weight");
  CHECK(record.phase_every == 4);
  CHECK_FALSE(record.machine.gpu.empty());
  REQUIRE(record.ranks.size() == 2);
  for (int r = 0; r < 2; ++r) {
    const RankRecord& rank = record.ranks[static_cast<std::size_t>(r)];
    CHECK(rank.rank == r);
    CHECK(rank.node == 0);
    CHECK_FALSE(rank.host.empty());
    CHECK(rank.step.size() == 10);
    CHECK(rank.step_host.size() == 10);
    CHECK(rank.warmup.size() == 4);  // 3, and one that fills the queue again
    CHECK(rank.forward.size() == 3);
    CHECK(rank.backward.size() == 3);
    CHECK(rank.exposed_communication.size() == 3);
    CHECK(rank.optimizer.size() == 3);
    CHECK(rank.launches > 0);
    CHECK(rank.peak_bytes > 0);
    CHECK(rank.checksum == record.ranks[0].checksum);
    CHECK(rank.last_loss < rank.first_loss);
    // Phases fill the step.
    for (std::size_t i = 0; i < 3; ++i) {
      const double phases =
          rank.forward[i] + rank.backward[i] + rank.exposed_communication[i] + rank.optimizer[i];
      CHECK(phases == approx(rank.step[4 * i]).epsilon(1e-9));
    }
    const std::vector<Bucket> buckets = ddp_buckets(*scenario.model, scenario.strategy.fusion.first_bucket,
                                                    scenario.strategy.fusion.bucket, Precision::fp32);
    REQUIRE(rank.buckets.size() == buckets.size());
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      CHECK(rank.buckets[b].bytes == buckets[b].bytes.count());
      CHECK(rank.buckets[b].collective == "all_reduce");
      REQUIRE(rank.buckets[b].ready.size() == 3);
      REQUIRE(rank.buckets[b].finished.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(rank.buckets[b].ready[i] > rank.forward[i]);
        CHECK(rank.buckets[b].finished[i] >= rank.buckets[b].ready[i]);
        CHECK(rank.buckets[b].finished[i] <= rank.step[4 * i]);
      }
    }
    CHECK(sum(rank.step) == approx(sum(rank.step_host)).epsilon(0.5));
    CHECK(rank.loss.empty());  // nobody asked for it
  }
}

TEST_CASE("the loss of every step that counts is kept where it is asked for, and changes no weight") {
  const Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 2, 4);
  Runner runner;
  runner.options.rank.length = {10, 3};
  const RunRecord without = runner.run(scenario);
  runner.options.rank.each_loss = true;
  const RunRecord with = runner.run(scenario);
  for (int r = 0; r < 2; ++r) {
    const RankRecord& rank = with.ranks[static_cast<std::size_t>(r)];
    REQUIRE(rank.loss.size() == 10);
    CHECK(rank.loss.back() == rank.last_loss);
    CHECK(rank.loss.back() < rank.loss.front());
    for (std::size_t i = 1; i < 10; ++i) CHECK(rank.loss[i] != rank.loss[i - 1]);
    CHECK(rank.checksum == without.ranks[static_cast<std::size_t>(r)].checksum);
  }
}

TEST_CASE("one session runs several scenarios, of one worker too, and several strategies") {
  Runner runner;
  runner.options.rank.length = {3, 1};
  const Model model = test::tiny_mlp();
  for (int workers : {2, 1, 3, 2}) {
    const RunRecord record = runner.run(test::made_scenario(model, StrategyKind::ddp, workers, 6));
    CHECK(record.complete);
    CHECK(record.ranks.size() == static_cast<std::size_t>(workers));
  }
  Scenario served = test::made_scenario(model, StrategyKind::parameter_server, 2, 6);
  served.strategy.accumulation = 2;
  const RunRecord record = runner.run(served);
  CHECK(record.ranks[0].checksum == record.ranks[1].checksum);
  CHECK(record.ranks[0].buckets[0].collective == "reduce");
  const RunRecord apart = runner.run(test::made_scenario(model, StrategyKind::independent, 2, 6));
  CHECK(apart.complete);
  CHECK(apart.ranks[0].checksum != apart.ranks[1].checksum);
  CHECK(apart.ranks[0].buckets.empty());
  served.strategy.accumulation = 4;
  CHECK_THROWS_WITH_AS(runner.run(served), doctest::Contains("cannot be split into 4 micro-batches"), Error);
}

TEST_CASE("the same seed gives the same weights") {
  Runner runner;
  runner.options.rank.length = {4, 2};
  const Scenario scenario = test::made_scenario(test::tiny_cnn(), StrategyKind::ddp, 2, 3);
  const std::uint64_t first = runner.run(scenario).ranks[0].checksum;
  CHECK(runner.run(scenario).ranks[0].checksum == first);
  runner.options.rank.seed = 2;
  CHECK(runner.run(scenario).ranks[0].checksum != first);
}

TEST_CASE("a failing rank ends the others and is named") {
  Runner runner;
  runner.options.rank.length = {50, 2};
  runner.options.rank.before_step = [](int rank, std::int64_t step) {
    if (rank == 1 && step == 7) throw std::runtime_error("the device fell off the bus");
  };
  const Scenario scenario = test::made_scenario(test::tiny_mlp(), StrategyKind::ddp, 3, 4);
  RunRecord record;
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS(runner.session.run(scenario, runner.options, {}, record),
                       "rank 1: the device fell off the bus", Error);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK_FALSE(record.complete);
  REQUIRE(record.ranks.size() == 3);  // what was finished is kept
  CHECK(record.ranks[0].step.size() == record.ranks[1].step.size());
  // The session goes on with new communicators.
  runner.options.rank.before_step = {};
  runner.options.rank.length = {2, 1};
  CHECK(runner.run(scenario).complete);
}

TEST_CASE("a rank that hangs ends the run within the limit and is named") {
  Runner runner;
  runner.options.rank.length = {50, 2};
  runner.options.time_limit = 0.5;
  std::atomic<bool> released{false};
  runner.options.rank.before_step = [&](int rank, std::int64_t step) {
    if (rank != 2 || step != 5) return;
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  const auto begin = std::chrono::steady_clock::now();
  RunRecord record;
  RunCallbacks callbacks;
  std::int64_t seen = 0;
  callbacks.progress = [&](std::int64_t steps) {
    seen = std::max(seen, steps);
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(3)) released = true;
  };
  CHECK_THROWS_WITH_AS(runner.session.run(test::made_scenario(test::tiny_mlp(), StrategyKind::ddp, 3, 4),
                                          runner.options, callbacks, record),
                       "rank 2 did not come forward within 0.5 s while training", Error);
  CHECK(seen <= 5);
}

TEST_CASE("a stopped run keeps the steps that are finished") {
  Runner runner;
  std::atomic<bool> stop{false};
  runner.options.rank.length = {1'000'000, 1};
  runner.callbacks.stop = &stop;
  runner.callbacks.progress = [&](std::int64_t steps) {
    if (steps > 20) stop = true;
  };
  const RunRecord record = runner.run(test::made_scenario(test::tiny_mlp(), StrategyKind::ddp, 2, 4));
  CHECK_FALSE(record.complete);
  REQUIRE(record.ranks.size() == 2);
  CHECK(record.ranks[0].step.size() >= 15);
  CHECK(record.ranks[0].step.size() == record.ranks[1].step.size());
}

TEST_CASE("soaking runs steps that nobody counts, on all ranks alike") {
  Runner runner;
  runner.options.rank.length = {4, 2, 0};
  runner.options.rank.length.soak = 0.3;
  std::atomic<std::int64_t> last[2] = {};
  runner.options.rank.before_step = [&](int rank, std::int64_t step) { last[rank] = step; };
  const RunRecord record = runner.run(test::made_scenario(test::tiny_mlp(), StrategyKind::ddp, 2, 4));
  CHECK(record.complete);
  CHECK(record.soak == 0.3);
  CHECK(record.ranks[0].step.size() == 4);
  CHECK(record.ranks[0].warmup.size() == 3);
  CHECK(last[0] == last[1]);
  CHECK(last[0] > 7);  // as many count
}

TEST_CASE("a step that will not fit is foretold, with the batch that would") {
  Scenario scenario = test::made_scenario(test::resnet50(), StrategyKind::ddp, 1, 4096);
  scenario.precision = Precision::bf16;
  Machine machine;
  CHECK(memory_warning(scenario, machine) == "");  // its memory is not known
  machine.memory_bytes = 80e9;
  const std::string what = memory_warning(scenario, machine);
  CHECK(what.find("it will run out of memory: a step needs about ") == 0);
  CHECK(what.find(" GB, a device has 79.0 GB; the largest batch a worker that fits is about ") !=
        std::string::npos);
  scenario.strategy.accumulation = 16;  // a micro-batch of 256 at a time
  CHECK(memory_warning(scenario, machine) == "");
}

TEST_CASE("the default length is 100 steps, or 20 s of steps and at least 12") {
  CHECK(default_steps(0.01) == 100);
  CHECK(default_steps(0.2) == 100);
  CHECK(default_steps(0.5) == 40);
  CHECK(default_steps(5) == 12);
}

TEST_CASE("a run of captured steps trains as another does") {
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::parameter_server}) {
    Scenario scenario = test::made_scenario(test::tiny_transformer(0.1), kind, 2, 4);
    const auto checksum = [&](bool captures) {
      scenario.execution.cuda_graph = captures;
      Runner runner;
      runner.options.rank.length = {6, 3};
      runner.options.rank.phase_every = 3;
      const RunRecord record = runner.run(scenario);
      CHECK(record.ranks[0].forward.size() == 2);
      return record.ranks[0].checksum;
    };
    CHECK(checksum(true) == checksum(false));
  }
}

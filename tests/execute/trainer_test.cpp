#include "execute/trainer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "device/reference/backend.hpp"
#include "execute/item_times.hpp"
#include "sim/base/random.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;

namespace {

struct Batch {
  std::vector<float> samples;
  std::vector<std::int32_t> labels;
};

Batch made_batch(const Model& model, std::int64_t size, std::uint64_t seed) {
  RandomStream random(seed, {0});
  Batch batch;
  for (std::int64_t i = 0; i < size * element_count(model.input); ++i)
    batch.samples.push_back(static_cast<float>(random.normal()));
  for (std::int64_t i = 0; i < size; ++i)
    batch.labels.push_back(
        static_cast<std::int32_t>(random.next() % static_cast<std::uint64_t>(model.classes)));
  return batch;
}

// Samples [from, from + size) of a batch.
Batch part(const Model& model, const Batch& whole, std::int64_t from, std::int64_t size) {
  const std::int64_t elements = element_count(model.input);
  return {{whole.samples.begin() + from * elements, whole.samples.begin() + (from + size) * elements},
          {whole.labels.begin() + from, whole.labels.begin() + from + size}};
}

struct Outcome {
  std::vector<std::vector<float>> gradients, weights;  // of rank 0, by parameter
  std::vector<std::uint64_t> checksums;                // by rank
  std::size_t buckets = 0;                             // of rank 0
};

// Steps of `workers` ranks in threads, the batch dealt out among ranks and micro-batches in order.
Outcome train(const Model& model, Strategy strategy, int workers, const Batch& batch, int steps,
              bool captures = false) {
  const auto size = static_cast<std::int64_t>(batch.labels.size());
  const std::int64_t micro_size = size / workers / strategy.accumulation;
  const auto backend = reference::make_backend();
  const CommunicatorId id = backend->make_communicator_id();
  Outcome outcome;
  outcome.checksums.resize(static_cast<std::size_t>(workers));
  const auto rank_work = [&](int rank) {
    const auto worker = backend->make_worker(rank);
    BuildOptions build;
    build.batch = micro_size;
    build.gradients = element_of(strategy.gradients);
    build.optimizer = model.optimizer;
    const auto program = worker->build(model, build);
    const auto communicator = workers > 1 ? worker->join(id, rank, workers) : nullptr;
    std::vector<double> item_end;
    if (needs_item_end(strategy, workers)) {
      Exchange exchange(*worker, communicator.get());
      const Batch mine = part(model, batch, rank * micro_size, micro_size);
      program->set_input(mine.samples, mine.labels);
      item_end = measure_item_ends(*worker, *program, exchange, [] {});
    }
    Trainer trainer(*worker, *program, communicator.get(), model, strategy, rank, workers, item_end,
                    captures);
    if (rank == 0) outcome.buckets = trainer.buckets().size();
    StepMarks marks = trainer.make_marks();
    for (int step = 0; step < steps; ++step) {
      marks.phases = step % 2 == 1;  // a captured step has other parts then
      trainer.issue_step(marks, [&](int micro) {
        const Batch mine =
            part(model, batch, (rank * strategy.accumulation + micro) * micro_size, micro_size);
        program->set_input(mine.samples, mine.labels);
      });
    }
    worker->synchronize();
    outcome.checksums[static_cast<std::size_t>(rank)] = program->checksum();
    if (rank != 0) return;
    for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p) {
      outcome.gradients.push_back(program->read_gradient(p));
      outcome.weights.push_back(program->read_parameter(p));
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank) threads.emplace_back(rank_work, rank);
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

Strategy strategy_of(StrategyKind kind) {
  Strategy strategy;
  strategy.kind = kind;
  strategy.fusion.first_bucket = Bytes(64);  // several buckets even of a tiny model
  strategy.fusion.bucket = Bytes(256);
  return strategy;
}

double difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b,
                  double scale = 1) {
  double difference = 0, norm = 0;
  for (std::size_t p = 0; p < a.size(); ++p) {
    for (std::size_t i = 0; i < a[p].size(); ++i) {
      difference += std::pow(scale * a[p][i] - b[p][i], 2);
      norm += std::pow(b[p][i], 2);
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace

TEST_CASE("gradients of data parallel workers are those of one worker on the joined batch") {
  const Model model = test::tiny_mlp();  // no batch norm, whose statistics are each worker's own
  const Batch batch = made_batch(model, 12, 7);
  const Outcome one = train(model, strategy_of(StrategyKind::independent), 1, batch, 1);
  for (int workers : {2, 3}) {
    const Outcome many = train(model, strategy_of(StrategyKind::ddp), workers, batch, 1);
    // The buffer holds the sum; the update divides by the workers.
    CHECK(difference(many.gradients, one.gradients, 1.0 / workers) < 1e-6);
    CHECK(difference(many.weights, one.weights) < 1e-6);
  }
}

TEST_CASE("a parameter server, one or several, trains as data parallel workers do") {
  const Model model = test::tiny_mlp();
  const Batch batch = made_batch(model, 12, 8);
  const Outcome ddp = train(model, strategy_of(StrategyKind::ddp), 3, batch, 4);
  for (int servers : {1, 2, 3}) {
    Strategy strategy = strategy_of(StrategyKind::parameter_server);
    strategy.servers = servers;
    const Outcome served = train(model, strategy, 3, batch, 4);
    CHECK(difference(served.weights, ddp.weights) < 1e-12);
    CHECK(served.checksums[1] == served.checksums[0]);
    CHECK(served.checksums[2] == served.checksums[0]);
  }
}

TEST_CASE("whatever the fusion of gradients, the weights are the same") {
  const Model model = test::tiny_cnn();
  const Batch batch = made_batch(model, 8, 11);
  Strategy strategy = strategy_of(StrategyKind::ddp);
  const Outcome buckets = train(model, strategy, 2, batch, 3);
  for (StrategyKind kind : {StrategyKind::ddp, StrategyKind::parameter_server}) {
    strategy.kind = kind;
    strategy.servers = 2;
    for (FusionKind fusion : {FusionKind::horovod, FusionKind::packs, FusionKind::groups, FusionKind::none}) {
      strategy.fusion = {};
      strategy.fusion.kind = fusion;
      strategy.fusion.cycle = Time::seconds(20e-6);
      strategy.fusion.packs = 5;
      strategy.fusion.max_bytes = Bytes(200);
      const Outcome fused = train(model, strategy, 2, batch, 3);
      CAPTURE(std::string(name_of(fusion)));
      // Of a parameter server a rank holds the sums that it is the server of.
      if (kind == StrategyKind::ddp) CHECK(difference(fused.gradients, buckets.gradients) < 1e-12);
      CHECK(difference(fused.weights, buckets.weights) < 1e-12);
      CHECK(fused.checksums[0] == fused.checksums[1]);
      if (fusion == FusionKind::packs) CHECK(fused.buckets == 5);
      if (fusion == FusionKind::none) CHECK(fused.buckets == model.parameters.size());
    }
  }
}

TEST_CASE("micro-batches add up to the whole batch") {
  const Model model = test::tiny_mlp();
  const Batch batch = made_batch(model, 12, 9);
  const Outcome whole = train(model, strategy_of(StrategyKind::ddp), 2, batch, 3);
  Strategy strategy = strategy_of(StrategyKind::ddp);
  strategy.accumulation = 3;
  const Outcome split = train(model, strategy, 2, batch, 3);
  CHECK(difference(split.weights, whole.weights) < 1e-6);
}

TEST_CASE("captured steps train as others do") {
  const Model model = test::tiny_cnn();
  const Batch batch = made_batch(model, 12, 12);
  for (StrategyKind kind : {StrategyKind::independent, StrategyKind::ddp, StrategyKind::parameter_server}) {
    for (int accumulation : {1, 3}) {
      Strategy strategy = strategy_of(kind);
      strategy.accumulation = accumulation;
      strategy.servers = 2;
      const int workers = kind == StrategyKind::independent ? 1 : 2;
      const Outcome direct = train(model, strategy, workers, batch, 4);
      const Outcome captured = train(model, strategy, workers, batch, 4, true);
      CAPTURE(std::string(name_of(kind)));
      CHECK(captured.checksums == direct.checksums);
      CHECK(captured.weights == direct.weights);
    }
  }
}

TEST_CASE("replicas stay identical, independent workers do not") {
  const Model model = test::tiny_cnn();
  const Batch batch = made_batch(model, 8, 10);
  const Outcome ddp = train(model, strategy_of(StrategyKind::ddp), 2, batch, 5);
  CHECK(ddp.checksums[0] == ddp.checksums[1]);
  const Outcome independent = train(model, strategy_of(StrategyKind::independent), 2, batch, 5);
  CHECK(independent.checksums[0] != independent.checksums[1]);
}

TEST_CASE("the executor's buckets are the simulator's, in order and contiguous") {
  const Model model = test::tiny_cnn();
  const auto backend = reference::make_backend();
  const auto worker = backend->make_worker(0);
  BuildOptions build;
  build.gradients = ElementType::bf16;
  const auto program = worker->build(model, build);
  Strategy strategy = strategy_of(StrategyKind::ddp);
  strategy.gradients = Precision::bf16;
  const std::vector<PlannedBucket> plan = plan_buckets(model, strategy, 2, *program);
  const std::vector<Bucket> expected =
      ddp_buckets(model, strategy.fusion.first_bucket, strategy.fusion.bucket, strategy.gradients);
  REQUIRE(plan.size() == expected.size());
  REQUIRE(plan.size() > 3);
  std::int64_t total = 0;
  for (std::size_t b = 0; b < plan.size(); ++b) {
    CHECK(plan[b].bucket.parameters == expected[b].parameters);
    CHECK(plan[b].gradients.bytes == expected[b].bytes.count());  // this backend leaves no gaps
    if (b > 0) CHECK(plan[b].bucket.ready >= plan[b - 1].bucket.ready);
    total += plan[b].gradients.bytes;
  }
  CHECK(total == program->gradients().bytes);
  // The last bucket waits for the first layer, whose weights come last in the backward pass.
  CHECK(plan.back().bucket.ready == std::ssize(program->backward_items()) - 1);
  CHECK(plan_buckets(model, strategy, 1, *program).empty());
}

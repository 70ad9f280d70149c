// Gradients of embeddings as rows that all ranks gather, on the reference backend.
#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "device/reference/backend.hpp"
#include "execute/text_data.hpp"
#include "execute/trainer.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;

namespace {

struct Outcome {
  std::vector<std::vector<float>> weights;  // of rank 0
  std::vector<std::uint64_t> checksums;
  std::vector<PlannedBucket> buckets;
};

Outcome train(const Model& model, EmbeddingGradient embedding, int workers, Precision gradients,
              bool captures) {
  Strategy strategy;
  strategy.kind = StrategyKind::ddp;
  strategy.gradients = gradients;
  strategy.fusion.embedding = embedding;
  strategy.fusion.first_bucket = Bytes(400);
  strategy.fusion.bucket = Bytes(4000);
  const auto backend = reference::make_backend();
  const CommunicatorId id = backend->make_communicator_id();
  const auto data = make_learnable_tokens(model, 4);
  Outcome outcome;
  outcome.checksums.resize(static_cast<std::size_t>(workers));
  const auto rank_work = [&](int rank) {
    const auto worker = backend->make_worker(rank);
    BuildOptions build;
    build.batch = 3;
    build.gradients = element_of(gradients);
    build.optimizer = model.optimizer;
    build.optimizer.learning_rate = 0.05;
    const auto program = worker->build(model, build);
    const auto communicator = worker->join(id, rank, workers);
    Trainer trainer(*worker, *program, communicator.get(), model, strategy, rank, workers, {}, captures);
    const StepMarks marks = trainer.make_marks();
    for (int step = 0; step < 4; ++step) {
      trainer.issue_step(marks, [&](int) {
        Batch batch;
        data->fill({step, 3, rank, workers}, batch);
        program->set_tokens(batch.tokens, batch.labels);
      });
    }
    outcome.checksums[static_cast<std::size_t>(rank)] = program->checksum();
    if (rank != 0) return;
    outcome.buckets = trainer.buckets();
    for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p)
      outcome.weights.push_back(program->read_parameter(p));
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank) threads.emplace_back(rank_work, rank);
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

double difference(const Outcome& a, const Outcome& b) {
  double difference = 0, norm = 0;
  for (std::size_t p = 0; p < a.weights.size(); ++p) {
    for (std::size_t i = 0; i < a.weights[p].size(); ++i) {
      difference += std::pow(a.weights[p][i] - b.weights[p][i], 2);
      norm += std::pow(b.weights[p][i], 2);
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace

TEST_CASE("gathered rows give the weights of dense gradients") {
  // Tables of their own, one of which lies between other parameters; one that the output shares.
  const std::pair<Model, EmbeddingGradient> cases[] = {
      {test::tiny_seq2seq(LayerKind::lstm), EmbeddingGradient::sparse},
      {test::tiny_llama(), EmbeddingGradient::sparse},
      {test::tiny_transformer(), EmbeddingGradient::tied_sparse}};
  for (const auto& each : cases) {
    const auto& model = each.first;
    const auto& kind = each.second;
    for (const int workers : {2, 3}) {
      CAPTURE(model.name);
      CAPTURE(workers);
      const Outcome dense = train(model, EmbeddingGradient::dense, workers, Precision::fp32, false);
      const Outcome sparse = train(model, kind, workers, Precision::fp32, false);
      CHECK(difference(sparse, dense) < 1e-6);
      for (const std::uint64_t checksum : sparse.checksums) CHECK(checksum == sparse.checksums[0]);
      int tables = 0;
      std::int64_t elements = 0;
      for (const PlannedBucket& planned : sparse.buckets) {
        tables += planned.bucket.is_sparse();
        elements += planned.gradients.bytes / 4;
        for (const Buffer& part : planned.further) elements += part.bytes / 4;
        if (planned.bucket.is_sparse())
          elements += model.parameters[static_cast<std::size_t>(planned.bucket.parameters.front())].elements;
      }
      CHECK(tables >= 1);
      CHECK(elements == model.parameter_count());  // the tables' own places are sent by nobody
      const Outcome captured = train(model, kind, workers, Precision::fp32, true);
      CHECK(captured.weights == sparse.weights);
    }
    const Outcome dense = train(model, EmbeddingGradient::dense, 2, Precision::bf16, false);
    CHECK(difference(train(model, kind, 2, Precision::bf16, false), dense) < 1e-2);
  }
}

TEST_CASE("rows of micro-batches are not gathered") {
  const Model model = test::tiny_llama();
  const auto backend = reference::make_backend();
  const auto worker = backend->make_worker(0);
  const auto program = worker->build(model, {});
  Strategy strategy;
  strategy.fusion.embedding = EmbeddingGradient::sparse;
  strategy.accumulation = 2;
  CHECK_THROWS_WITH_AS(plan_buckets(model, strategy, 2, *program), doctest::Contains("micro-batches"), Error);
  strategy.accumulation = 1;
  strategy.kind = StrategyKind::parameter_server;
  CHECK_THROWS_WITH_AS(plan_buckets(model, strategy, 2, *program), doctest::Contains("kind ddp"), Error);
  strategy.kind = StrategyKind::ddp;
  CHECK_THROWS_WITH_AS(
      plan_buckets(test::tiny_transformer(), strategy, 2, *worker->build(test::tiny_transformer(), {})),
      doctest::Contains("dense or tied_sparse"), Error);
}

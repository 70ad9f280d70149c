#include "execute/unequal_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "device/reference/backend.hpp"
#include "execute/run_session.hpp"
#include "sim/input/sequence_lengths.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/scenarios.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

// What follows a word depends on the words before it alone.
Model reader_of(std::int64_t length) {
  ModelBuilder b("reader", {length}, 40);
  b.take_tokens(40, length);
  RecurrentStack stack;
  stack.hidden = 6;
  const int x = b.recurrence(LayerKind::gru, "gru", {b.embedding("table", b.input(), 6, {})}, stack);
  b.softmax_cross_entropy("loss", b.linear("output", x, 40, true));
  return b.finish();
}

Scenario scenario_of(LengthBatching batching, int workers, std::int64_t batch, std::int64_t multiple = 1) {
  auto lengths = std::make_shared<SequenceLengths>();
  lengths->histogram = {{3, 4}, {5, 3}, {9, 2}, {12, 1}};
  lengths->batching = batching;
  lengths->buckets = 3;
  lengths->multiple = multiple;
  lengths->model_at = [](std::int64_t length) { return std::make_shared<const Model>(reader_of(length)); };
  Scenario scenario = test::made_scenario(reader_of(lengths->longest()), StrategyKind::ddp, workers, batch);
  scenario.lengths = lengths;
  return scenario;
}

RunRecord run(const Scenario& scenario, RunOptions options) {
  const auto backend = device::reference::make_backend();
  RunSession session(*backend, LaunchEnvironment{}, [](const char*) -> const char* { return nullptr; });
  RunRecord record;
  session.run(scenario, options, {}, record);
  return record;
}

constexpr LengthBatching all_ways[] = {LengthBatching::pad_global, LengthBatching::pad_batch,
                                       LengthBatching::bucketed, LengthBatching::packed};

}  // namespace

TEST_CASE("a worker's samples are those that its row was drawn by") {
  for (const LengthBatching batching : all_ways) {
    const Scenario scenario = scenario_of(batching, 2, 5, 2);
    const LengthDraws draws(*scenario.lengths, 5, 7);
    const std::vector<std::int64_t> possible = draws.possible_rows();
    double sum = 0, count = 0;
    for (std::uint64_t draw = 0; draw < 400; ++draw) {
      for (int worker = 0; worker < 2; ++worker) {
        const auto rows = draws.samples(draw, worker);
        REQUIRE(rows.size() == 5);
        std::int64_t longest = 0;
        for (const auto& samples : rows) {
          const std::int64_t filled = std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
          longest = std::max(longest, filled);
          sum += static_cast<double>(filled);
          count += static_cast<double>(samples.size());
        }
        const std::int64_t row = draws.row(draw, worker);
        CHECK(longest <= row);
        CHECK(std::find(possible.begin(), possible.end(), row) != possible.end());
        CHECK(row % 2 == 0);
        if (batching == LengthBatching::pad_batch || batching == LengthBatching::bucketed)
          CHECK(scenario.lengths->padded(longest) == row);
        CHECK(draws.samples(draw, worker) == rows);
      }
    }
    // The mean of the histogram, whatever the batching; samples of a bucket are alike, so that 800 batches
    // tell less, and packing leaves some long ones aside.
    const double tolerance = batching == LengthBatching::packed     ? 0.15
                             : batching == LengthBatching::bucketed ? 0.08
                                                                    : 0.03;
    CHECK(sum / count == approx(scenario.lengths->mean()).epsilon(tolerance));
  }
}

TEST_CASE("rows beyond their samples are padding without labels") {
  for (const LengthBatching batching : all_ways) {
    const Scenario scenario = scenario_of(batching, 2, 4);
    const auto rows = make_learnable_data(*scenario.model, 3);
    const UnequalData data(*rows, scenario, 7);
    for (std::int64_t update = 0; update < 20; ++update) {
      for (int rank = 0; rank < 2; ++rank) {
        Batch batch;
        data.fill({update, 4, rank, 2}, batch);
        const auto length = static_cast<std::size_t>(data.row(update, rank));
        REQUIRE(batch.tokens.size() == 4 * length);
        REQUIRE(batch.labels.size() == 4 * length);
        const auto due =
            std::count_if(batch.labels.begin(), batch.labels.end(), [](auto l) { return l >= 0; });
        CHECK(static_cast<double>(due) == data.useful(update, rank, 4));
        CHECK(data.padded(update, rank, 4) == static_cast<double>(4 * length));
      }
    }
  }
  Scenario many = scenario_of(LengthBatching::pad_batch, 1, 4);
  auto lengths = std::make_shared<SequenceLengths>(*many.lengths);
  for (std::int64_t length = 13; length < 100; ++length) lengths->histogram.push_back({length, 1});
  many.model = std::make_shared<const Model>(reader_of(lengths->longest()));
  many.lengths = lengths;
  const auto rows = make_learnable_data(*many.model, 3);
  CHECK_THROWS_WITH_AS(UnequalData(*rows, many, 1), doctest::Contains("sequence.multiple"), Error);
  lengths->multiple = 4;
  UnequalData(*rows, many, 1);
}

TEST_CASE("padding counts neither in the loss nor in its gradients") {
  const auto backend = device::reference::make_backend();
  const auto worker = backend->make_worker(0);
  device::BuildOptions options;
  options.batch = 2;
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6}, labels{2, 3, 4, 5, 6, 7};
  const auto longer = [](const std::vector<std::int32_t>& rows, std::int32_t padding) {
    std::vector<std::int32_t> out;
    for (std::size_t row = 0; row < 2; ++row) {
      out.insert(out.end(), rows.begin() + static_cast<std::ptrdiff_t>(3 * row),
                 rows.begin() + static_cast<std::ptrdiff_t>(3 * row + 3));
      out.insert(out.end(), 4, padding);
    }
    return out;
  };
  const auto pass = [](device::Program& program) {
    for (const device::WorkItem& item : program.forward_items()) program.issue(item);
    for (const device::WorkItem& item : program.backward_items()) program.issue(item);
  };
  const Model model = reader_of(7), shorter = reader_of(3);
  const auto full = worker->build(model, options);
  full->set_tokens(longer(tokens, 0), longer(labels, -1));
  pass(*full);
  const double loss = full->loss();
  std::vector<std::vector<float>> gradients;
  for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p)
    gradients.push_back(full->read_gradient(p));
  options.shares = full.get();
  const auto exact = worker->build(shorter, options);
  exact->weights_updated_elsewhere();
  exact->set_tokens(tokens, labels);
  pass(*exact);
  CHECK(exact->loss() == approx(loss).epsilon(1e-12));
  for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p) {
    const std::vector<float> own = exact->read_gradient(p);
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(own[i] == approx(gradients[static_cast<std::size_t>(p)][i]).epsilon(1e-6));
  }
}

TEST_CASE("a run of unequal lengths records what its rows held, and trains equal replicas") {
  for (const LengthBatching batching : all_ways) {
    for (const bool captures : {false, true}) {
      Scenario scenario = scenario_of(batching, 2, 4);
      scenario.execution.cuda_graph = captures;
      RunOptions options;
      options.rank.length = {12, 2};
      options.rank.phase_every = 2;
      const RunRecord record = run(scenario, options);
      CHECK(record.complete);
      REQUIRE(record.ranks.size() == 2);
      CHECK(record.ranks[0].checksum == record.ranks[1].checksum);
      const LengthDraws draws(*scenario.lengths, 4, options.rank.seed);
      double useful = 0, padded = 0;
      for (const RankRecord& rank : record.ranks) {
        REQUIRE(rank.padded_units.size() == 12);
        REQUIRE(rank.useful_units.size() == 12);
        for (std::size_t i = 0; i < 12; ++i) {
          // The step that counts first is draw 1, as in the prediction.
          CHECK(rank.padded_units[i] == static_cast<double>(4 * draws.row(i + 1, rank.rank)));
          useful += rank.useful_units[i];
          padded += rank.padded_units[i];
        }
      }
      REQUIRE(record.sequences);
      CHECK(record.sequences->batching == name_of(batching));
      CHECK(record.sequences->padding == approx(1 - useful / padded));
      CHECK(record.sequences->useful_per_second <= record.sequences->padded_per_second);
      CHECK(record.sequences->useful_per_second > 0);
      CHECK(record.sequences->waiting >= 0);
    }
  }
}

TEST_CASE("a model whose parameters depend on the length has no rows of unequal ones") {
  Scenario scenario = scenario_of(LengthBatching::pad_batch, 1, 4);
  auto lengths = std::make_shared<SequenceLengths>(*scenario.lengths);
  lengths->model_at = [](std::int64_t length) {
    ModelBuilder b("places", {length}, 40);
    b.take_tokens(40, length);
    EmbeddingTable table;
    table.positions = static_cast<int>(length);
    b.softmax_cross_entropy("loss", b.linear("output", b.embedding("table", b.input(), 6, table), 40, true));
    return std::make_shared<const Model>(b.finish());
  };
  scenario.model = lengths->model_at(12);
  scenario.lengths = lengths;
  RunOptions options;
  options.rank.length = {2, 1};
  CHECK_THROWS_WITH_AS(run(scenario, options), doctest::Contains("depend on the length"), Error);
}

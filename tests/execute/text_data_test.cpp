#include "execute/text_data.hpp"

#include <doctest/doctest.h>

#include <set>

#include "device/reference/backend.hpp"
#include "sim/base/error.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;

namespace {

Model reader_of(std::int64_t tokens, std::int64_t length, int width) {
  ModelBuilder b("reader", {length}, tokens);
  b.take_tokens(tokens, length);
  const int x = b.embedding("embedding", b.input(), width, {.positions = length});
  const int q = b.linear("qkv", b.layer_norm("norm", x), 3 * width, true);
  const int y = b.attention("core", {q}, {.heads = 2, .kv_heads = 2, .causal = true});
  const int sum = b.add("add", {x, b.linear("out", y, width, true)});
  b.softmax_cross_entropy("loss", b.linear("output", b.layer_norm("last", sum), tokens, true));
  Model model = b.finish();
  model.optimizer = {.kind = OptimizerKind::adamw, .learning_rate = 1e-2, .clip_norm = 1};
  return model;
}

// Mean loss of steps [from, to).
std::vector<double> train(const Model& model, const DataSource& data, int steps, std::int64_t batch) {
  const auto backend = device::reference::make_backend();
  const auto worker = backend->make_worker(0);
  device::BuildOptions options;
  options.batch = batch;
  options.optimizer = model.optimizer;
  const auto program = worker->build(model, options);
  std::vector<double> losses;
  Batch samples;
  for (int step = 0; step < steps; ++step) {
    data.fill({step, batch, 0, 1}, samples);
    program->set_tokens(samples.tokens, samples.labels);
    for (const device::WorkItem& item : program->forward_items()) program->issue(item);
    losses.push_back(program->loss());
    for (const device::WorkItem& item : program->backward_items()) program->issue(item);
    program->update();
  }
  return losses;
}

}  // namespace

TEST_CASE("bytes and words of a text, each followed by its target") {
  const test::TemporaryFolder folder;
  folder.write("a.txt", "the cat, the dog, the end.");
  Batch batch;
  const auto words = open_text(folder.path("a.txt"), TextUnit::words, reader_of(4, 5, 4), 1);
  words->fill({0, 64, 0, 1}, batch);
  CHECK(batch.tokens.size() == 320);
  CHECK(batch.labels.size() == 320);
  CHECK(batch.samples.empty());
  // the: 3, comma: 2, then ".", cat, dog and end once each: those beyond the fourth share its number.
  std::set<std::int32_t> seen(batch.tokens.begin(), batch.tokens.end());
  seen.insert(batch.labels.begin(), batch.labels.end());
  CHECK(seen == std::set<std::int32_t>{0, 1, 2, 3});
  for (std::size_t n = 0; n < 8; ++n)
    for (std::size_t t = 0; t + 1 < 5; ++t) CHECK(batch.tokens[5 * n + t + 1] == batch.labels[5 * n + t]);
  const auto bytes = open_text(folder.path("."), TextUnit::bytes, reader_of(16, 5, 4), 1);
  Batch same, other;
  bytes->fill({3, 2, 1, 2}, same);
  bytes->fill({3, 2, 1, 2}, other);
  CHECK(same.tokens == other.tokens);
  CHECK_THROWS_WITH_AS(open_text(folder.path("a.txt"), TextUnit::words, reader_of(4, 9, 4), 1),
                       doctest::Contains("holds 9 tokens, too few for sequences of 9"), Error);
  CHECK_THROWS_AS(open_text(folder.path("b.txt"), TextUnit::bytes, reader_of(4, 5, 4), 1), Error);
  CHECK_THROWS_WITH_AS(make_data_source("text:" + folder.path("a.txt"), test::tiny_cnn(), 1),
                       doctest::Contains("reads images"), Error);
}

TEST_CASE("a model of source and target is to say a stretch again") {
  const test::TemporaryFolder folder;
  folder.write("a.txt", "abcdefg");
  Batch batch;
  open_text(folder.path("a.txt"), TextUnit::bytes, test::tiny_seq2seq(LayerKind::lstm), 1)
      ->fill({0, 1, 0, 1}, batch);
  REQUIRE(batch.tokens.size() == 8);
  CHECK(batch.tokens[4] == 0);
  for (std::size_t t = 0; t < 4; ++t) {
    CHECK(batch.labels[t] == batch.tokens[t]);
    if (t > 0) CHECK(batch.tokens[4 + t] == batch.tokens[t - 1]);
  }
}

TEST_CASE("the loss falls on this project's own documentation") {
  const Model model = reader_of(64, 16, 16);
  const auto data = open_text(std::string(FORETRAIN_SOURCE_DIR) + "/docs/jobs.md", TextUnit::bytes, model, 1);
  const std::vector<double> losses = train(model, *data, 80, 8);
  CHECK(losses.front() > 4);
  CHECK(losses.back() < 3.2);  // 64 characters: ln 64 = 4.16; those of the text by their counts: about 3.1
}

TEST_CASE("learnable tokens are learned, by recurrences too") {
  Model model = test::tiny_seq2seq(LayerKind::gru);
  model.optimizer = {.kind = OptimizerKind::adam, .learning_rate = 2e-2};
  const auto data = make_data_source("learnable", model, 1);
  const std::vector<double> losses = train(model, *data, 150, 8);
  CHECK(losses.front() > 1.5);
  CHECK(losses.back() < 0.7);
}

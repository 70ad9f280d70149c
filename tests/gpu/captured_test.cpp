// Steps captured as CUDA graphs, and masks of dropout that a checkpoint keeps.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>

#include "device/registry.hpp"
#include "execute/trainer.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/backend_pair.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using foretrain::test::approx;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Strategy alone() {
  Strategy strategy;
  strategy.kind = StrategyKind::independent;
  return strategy;
}

struct Trained {
  std::uint64_t checksum = 0;
  double loss = 0;
};

// Steps of one worker, with another learning rate halfway.
Trained train(const Model& model, const BuildOptions& options, int steps, bool captures,
              int accumulation = 1) {
  const auto worker = open_backend("cuda").make_worker(0);
  const auto program = worker->build(model, options);
  program->synthesize_input(3);
  Strategy strategy = alone();
  strategy.accumulation = accumulation;
  Trainer trainer(*worker, *program, nullptr, model, strategy, 0, 1, {}, captures);
  StepMarks marks = trainer.make_marks();
  for (int step = 0; step < steps; ++step) {
    if (step == steps / 2) program->set_learning_rate(options.optimizer.learning_rate / 2);
    marks.phases = step % 3 == 1;
    trainer.issue_step(marks);
  }
  worker->synchronize();
  return {program->checksum(), program->loss()};
}

BuildOptions options_of(const Model& model, std::int64_t batch, Precision precision, bool deterministic) {
  BuildOptions options;
  options.batch = batch;
  options.precision = precision;
  options.optimizer = model.optimizer;
  options.optimizer.learning_rate = 0.01;
  options.deterministic = deterministic;
  return options;
}

}  // namespace

TEST_CASE("captured steps give the weights of others, bit for bit") {
  const Model models[] = {test::tiny_mlp(),
                          test::tiny_cnn(),
                          test::tiny_transformer(),
                          test::tiny_transformer(0.2),
                          test::tiny_llama(),
                          test::tiny_seq2seq(LayerKind::lstm),
                          test::tiny_seq2seq(LayerKind::gru, true)};
  for (const Model& model : models) {
    for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
      BuildOptions options = options_of(model, 4, Precision::bf16, true);
      options.optimizer.kind = kind;
      options.optimizer.momentum = 0.9;
      options.optimizer.clip_norm = kind == OptimizerKind::adam ? 1 : 0;
      for (const int accumulation : {1, 2}) {
        CAPTURE(model.name);
        CAPTURE(model.layers.size());
        CAPTURE(accumulation);
        const Trained direct = train(model, options, 8, false, accumulation);
        const Trained again = train(model, options, 8, false, accumulation);
        CHECK(again.checksum == direct.checksum);
        const Trained captured = train(model, options, 8, true, accumulation);
        CHECK(captured.checksum == direct.checksum);
        CHECK(captured.loss == direct.loss);
      }
    }
  }
}

TEST_CASE("a captured step of many small kernels is faster") {
  const Model model = test::tiny_seq2seq(LayerKind::lstm, true);
  const BuildOptions options = options_of(model, 4, Precision::bf16, false);
  double seconds[2] = {};
  for (const bool captures : {false, true}) {
    const auto worker = open_backend("cuda").make_worker(0);
    const auto program = worker->build(model, options);
    Trainer trainer(*worker, *program, nullptr, model, alone(), 0, 1, {}, captures);
    const StepMarks marks = trainer.make_marks();
    constexpr int steps = 50;
    for (int step = 0; step < 5; ++step) trainer.issue_step(marks);
    worker->synchronize();
    const double begin = now();
    for (int step = 0; step < steps; ++step) trainer.issue_step(marks);
    worker->synchronize();
    seconds[captures ? 1 : 0] = (now() - begin) / steps;
  }
  std::printf("a step of %s: %.0f us, captured %.0f us\n", model.name.c_str(), 1e6 * seconds[0],
              1e6 * seconds[1]);
  CHECK(seconds[1] < seconds[0]);
}

TEST_CASE("a model with dropout resumes bit for bit") {
  for (const Model& model : {test::tiny_transformer(0.3)}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const BuildOptions options = options_of(model, 4, precision, true);
      const auto worker = open_backend("cuda").make_worker(0);
      const auto steps = [&](Program& program, int count) {
        Trainer trainer(*worker, program, nullptr, model, alone(), 0, 1);
        const StepMarks marks = trainer.make_marks();
        for (int step = 0; step < count; ++step) trainer.issue_step(marks);
        worker->synchronize();
      };
      const auto unbroken = worker->build(model, options);
      unbroken->synthesize_input(5);
      steps(*unbroken, 3);
      std::vector<std::byte> weights(static_cast<std::size_t>(unbroken->weights().bytes));
      worker->read(unbroken->weights(), weights);
      const std::vector<std::byte> state = unbroken->save_state();
      steps(*unbroken, 4);

      const auto resumed = worker->build(model, options);
      resumed->synthesize_input(5);
      steps(*resumed, 2);  // leaves no trace
      worker->write(resumed->weights(), weights);
      resumed->weights_changed();
      resumed->load_state(state);
      steps(*resumed, 4);
      CHECK(resumed->checksum() == unbroken->checksum());
      CHECK(resumed->loss() == unbroken->loss());
    }
  }
}

// The draws of cuDNN's recurrences lie in its own memory.
TEST_CASE("a fused recurrence with dropout resumes where it was") {
  ModelBuilder b("stacked", {12}, 32);
  b.take_tokens(32, 12);
  RecurrentStack stack;
  stack.hidden = 24;
  stack.layers = 3;
  stack.dropout = 0.4;
  const int x = b.recurrence(LayerKind::lstm, "stack", {b.embedding("embedding", b.input(), 24, {})}, stack);
  b.softmax_cross_entropy("loss", b.linear("output", x, 32, true));
  const Model model = b.finish();
  const BuildOptions options = options_of(model, 4, Precision::fp32, true);
  const auto worker = open_backend("cuda").make_worker(0);
  const auto program = worker->build(model, options);
  program->synthesize_input(5);
  const auto losses = [&] {
    std::vector<double> seen;
    for (int pass = 0; pass < 3; ++pass) {
      for (const WorkItem& item : program->forward_items()) program->issue(item);
      seen.push_back(program->loss());
    }
    return seen;
  };
  losses();
  const std::vector<std::byte> state = program->save_state();
  const std::vector<double> first = losses();
  CHECK(first[0] != first[1]);  // another mask
  program->load_state(state);
  CHECK(losses() == first);
}

TEST_CASE("rows of a table put together again are its gradient") {
  for (const Model& model : {test::tiny_transformer(), test::tiny_seq2seq(LayerKind::gru)}) {
    for (const ElementType type : {ElementType::fp32, ElementType::bf16}) {
      BuildOptions options = options_of(model, 4, Precision::bf16, true);
      options.gradients = type;
      options.gathers_rows = true;
      const auto worker = open_backend("cuda").make_worker(0);
      const auto program = worker->build(model, options);
      program->synthesize_input(3);
      for (const WorkItem& item : program->forward_items()) program->issue(item);
      for (const WorkItem& item : program->backward_items()) program->issue(item);
      for (const Layer& layer : model.layers) {
        if (layer.kind != LayerKind::embedding || layer.tied >= 0) continue;
        const int table = layer.parameters.front();
        const std::vector<float> dense = program->read_gradient(table);
        const std::int64_t part = program->sparse_bytes(table);
        const Buffer parts = worker->allocate(2 * part);
        const Buffer second{static_cast<std::byte*>(parts.data) + part, part};
        program->gather_rows(table, {parts.data, part});
        program->gather_rows(table, second);
        program->add_rows(table, parts, 1);
        CHECK(program->read_gradient(table) == dense);
        program->add_rows(table, parts, 2);
        std::vector<float> twice = dense;
        for (float& value : twice) value *= 2;
        CHECK(program->read_gradient(table) == twice);
        worker->release(parts);
      }
    }
  }
}

TEST_CASE("rows of other lengths train with the same weights and in the same memory") {
  bool is_recurrent = false;
  SUBCASE("attention") {}
  SUBCASE("recurrence") {
    is_recurrent = true;
  }
  const auto reader = [is_recurrent](std::int64_t length) {
    ModelBuilder b("reader", {length}, 64);
    b.take_tokens(64, length);
    const AttentionHeads heads{.heads = 2, .kv_heads = 2, .causal = true};
    const int x = b.embedding("embedding", b.input(), 128, {});
    const int mixed = is_recurrent ? b.recurrence(LayerKind::lstm, "core", {x}, {.hidden = 128})
                                   : b.attention("core", {b.linear("qkv", x, 3 * 128, true)}, heads);
    b.softmax_cross_entropy("loss", b.linear("output", mixed, 64, true));
    return b.finish();
  };
  constexpr int length = 1024, used = 400;
  const Model model = reader(length), shorter = reader(used);
  BuildOptions options = options_of(model, 2, Precision::bf16, false);
  options.optimizer.learning_rate = 0.5;
  const auto worker = open_backend("cuda").make_worker(0);
  const auto full = worker->build(model, options);
  worker->reset_peak();
  const std::int64_t before = worker->peak_bytes();
  options.shares = full.get();
  const auto other = worker->build(shorter, options);
  worker->reset_peak();
  CHECK(worker->peak_bytes() - before < full->report().activation_bytes / 2);
  // Further ones hold their rows and labels; what they compute with is there already.
  const std::int64_t of_two = worker->peak_bytes();
  std::vector<std::unique_ptr<Program>> further;
  for (const std::int64_t less : {384, 320, 256}) further.push_back(worker->build(reader(less), options));
  worker->reset_peak();
  // A fused recurrence's weights as the library packs them are a program's own.
  const std::int64_t packed = is_recurrent ? 3 * 2 * 4 * 128 * (128 + 128) : 0;
  CHECK(worker->peak_bytes() - of_two < packed + (128 << 10));
  // The same tokens, with padding behind them and without.
  std::vector<std::int32_t> tokens, labels, padded_tokens, padded_labels;
  for (int row = 0; row < 2; ++row) {
    for (int t = 0; t < length; ++t) {
      const std::int32_t token = (row * 31 + t * 7) % 64;
      padded_tokens.push_back(t < used ? token : 0);
      padded_labels.push_back(t < used ? (token + 1) % 64 : -1);
      if (t < used) tokens.push_back(token), labels.push_back((token + 1) % 64);
    }
  }
  const auto pass = [](Program& program) {
    for (const WorkItem& item : program.forward_items()) program.issue(item);
    for (const WorkItem& item : program.backward_items()) program.issue(item);
  };
  full->set_tokens(padded_tokens, padded_labels);
  pass(*full);
  const double loss = full->loss();
  std::vector<std::vector<float>> gradients;
  for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p)
    gradients.push_back(full->read_gradient(p));
  other->weights_updated_elsewhere();
  other->set_tokens(tokens, labels);
  pass(*other);
  CHECK(other->loss() == approx(loss).epsilon(1e-2));
  for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p) {
    CAPTURE(model.parameters[static_cast<std::size_t>(p)].name);
    CHECK(test::distance(other->read_gradient(p), gradients[static_cast<std::size_t>(p)]) < 0.05);
  }
  other->update();
  full->weights_updated_elsewhere();
  pass(*full);
  CHECK(full->loss() < loss);
}

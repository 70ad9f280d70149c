// Layers of sequence models on the cuda backend against the double-precision reference.
#include <doctest/doctest.h>

#include <cmath>

#include "device/registry.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/backend_pair.hpp"
#include "tests/support/models.hpp"
#include "tests/support/sequence_cases.hpp"

using namespace foretrain;
using namespace foretrain::device;
using namespace foretrain::test;

namespace {

constexpr int words = 48, length = 24;

}  // namespace

TEST_CASE("gradients of sequence layers in fp32 agree with the reference") {
  for (const Model& model : sequence_cases())
    compare_gradients(open_backend("cuda"), model, options_of(model, Precision::fp32), 1e-5);
}
TEST_CASE("gradients of sequence layers in tf32 agree with the reference") {
  for (const Model& model : sequence_cases())
    compare_gradients(open_backend("cuda"), model, options_of(model, Precision::tf32), 5e-3);
}
// Of whole models, and of recurrences with weights so large that 24 steps amplify what rounding does, more.
TEST_CASE("gradients of sequence layers in bf16 agree with the reference") {
  for (const Model& model : sequence_cases()) {
    const bool is_model = model.name.starts_with("tiny-");
    const bool amplifies = model.name == "rnn-stack" || model.name == "rnn-unrolled";
    compare_gradients(open_backend("cuda"), model, options_of(model, Precision::bf16),
                      is_model || amplifies ? 0.1 : 2e-2);
  }
}

TEST_CASE("gradients of tied weights add up over micro-batches") {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Model model = test::tiny_transformer();
    const auto worker = open_backend("cuda").make_worker(0);
    const auto program = worker->build(model, options_of(model, precision));
    prepare(*program, model, 8);
    step(*program, false);
    std::vector<std::vector<float>> once;
    for (std::size_t p = 0; p < model.parameters.size(); ++p)
      once.push_back(program->read_gradient(static_cast<int>(p)));
    program->accumulate_gradients(true);
    step(*program, false);
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      CAPTURE(model.parameters[p].name);
      for (float& value : once[p]) value *= 2;
      CHECK(distance(program->read_gradient(static_cast<int>(p)), once[p]) < 1e-5);
    }
  }
}

TEST_CASE("the gradient of a table agrees where most rows are one token, as those of padding are") {
  ModelBuilder b("padded", {length}, words);
  b.take_tokens(words, length);
  const int x = b.embedding("embedding", b.input(), 40, {});
  b.softmax_cross_entropy("loss", b.linear("output", x, words, true));
  const Model model = b.finish();
  const Pair pair = build(open_backend("cuda"), model, options_of(model, Precision::fp32));
  // Rows of the sorted list: a long run from its beginning, one amid it, and the rest by ones and twos.
  for (const int most : {0, words / 2}) {
    std::vector<std::int32_t> tokens, labels;
    for (int i = 0; i < 8 * length; ++i) {
      tokens.push_back(i % 3 != 0 ? most : i % words);
      labels.push_back(i * 7 % words);
    }
    for (Program* program : {pair.program.get(), pair.reference.get()}) {
      program->set_tokens(tokens, labels);
      step(*program, false);
    }
    CHECK(distance(pair.program->read_gradient(0), pair.reference->read_gradient(0)) < 1e-5);
  }
}

TEST_CASE("dropout drops its share, and the backward pass the same elements") {
  ModelBuilder b("dropout", {length}, words);
  b.take_tokens(words, length);
  const int x = b.embedding("embedding", b.input(), 64, {});
  b.softmax_cross_entropy("loss", b.linear("output", b.dropout("drop", x, 0.25), words, true));
  const Model model = b.finish();
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto worker = open_backend("cuda").make_worker(0);
    const auto program = worker->build(model, options_of(model, precision));
    prepare(*program, model, 8);
    // The mean of many draws is what no dropout gives; the gradient of the table is zero where all copies of
    // a word's feature were dropped, and of a word in k places that happens with 0.25^k.
    step(*program, false);
    const auto first = program->read_gradient(0);
    step(*program, false);
    CHECK(distance(program->read_gradient(0), first) > 0.1);  // another draw
    CHECK(std::isfinite(program->loss()));
  }
}

TEST_CASE("the loss of sequence models falls, with dropout and Adam and clipped gradients") {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    Model model = test::tiny_transformer(0.1);
    model.optimizer = {};
    model.optimizer.kind = OptimizerKind::adamw;
    model.optimizer.learning_rate = 1e-2;
    model.optimizer.clip_norm = 1;
    const auto worker = open_backend("cuda").make_worker(0);
    const auto program = worker->build(model, options_of(model, precision));
    prepare(*program, model, 8);
    step(*program, true);
    const double before = program->loss();
    for (int i = 0; i < 150; ++i) step(*program, true);
    CHECK(program->loss() < 0.7 * before);
  }
}

TEST_CASE("clipped updates agree with the reference") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    const Model model = test::tiny_llama();
    BuildOptions options = options_of(model, Precision::fp32);
    options.optimizer = {};
    options.optimizer.kind = kind;
    options.optimizer.learning_rate = 1e-2;
    options.optimizer.clip_norm = 0.1;
    const Pair pair = build(open_backend("cuda"), model, options);
    for (Program* program : {pair.program.get(), pair.reference.get()}) {
      program->set_gradient_scale(0.5);
      for (int i = 0; i < 3; ++i) step(*program, true);
    }
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      CAPTURE(model.parameters[p].name);
      const int index = static_cast<int>(p);
      CHECK(distance(pair.program->read_parameter(index), pair.reference->read_parameter(index)) < 1e-3);
    }
  }
}

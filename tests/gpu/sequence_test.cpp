// Layers of sequence models on the cuda backend against the double-precision reference.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "device/registry.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/backend_pair.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using namespace foretrain::test;

namespace {

constexpr int words = 48, length = 24, width = 32;

// An embedding, what `body` makes of its rows, and a loss over the words.
Model built(const char* name, const std::function<int(ModelBuilder&, int)>& body, EmbeddingTable table = {}) {
  ModelBuilder b(name, {length}, words);
  b.take_tokens(words, length);
  const int x = body(b, b.embedding("embedding", b.input(), width, table));
  b.softmax_cross_entropy("loss", b.linear("output", x, words, true));
  return b.finish();
}

std::vector<Model> cases() {
  std::vector<Model> all;
  const auto add = [&](const char* name, const std::function<int(ModelBuilder&, int)>& body,
                       EmbeddingTable table = {}) { all.push_back(built(name, body, table)); };
  add("embedding", [](ModelBuilder&, int x) { return x; });
  add("embedding-positions", [](ModelBuilder&, int x) { return x; },
      {.positions = length + 3, .segments = 2, .scaled = true});
  add("embedding-sinusoids", [](ModelBuilder&, int x) { return x; }, {.sinusoidal = true});
  add("linear-rows", [](ModelBuilder& b, int x) { return b.linear("a", x, 40, true); });
  add("layer-norm", [](ModelBuilder& b, int x) { return b.layer_norm("n", b.linear("a", x, 40, true)); });
  add("rms-norm", [](ModelBuilder& b, int x) { return b.rms_norm("n", b.linear("a", x, 37, false)); });
  add("norm-residual", [](ModelBuilder& b, int x) {
    return b.add("s", {x, b.linear("a", b.layer_norm("n", x), width, true)});
  });
  add("gelu", [](ModelBuilder& b, int x) { return b.gelu("g", b.linear("a", x, 40, true), false); });
  add("gelu-tanh", [](ModelBuilder& b, int x) { return b.gelu("g", b.linear("a", x, 40, true), true); });
  add("gated", [](ModelBuilder& b, int x) {
    return b.multiply("m", {b.silu("s", b.linear("a", x, 40, false)), b.linear("b", x, 40, false)});
  });
  add("concat", [](ModelBuilder& b, int x) {
    return b.concat("c", {b.linear("a", x, 24, false), x, b.linear("b", x, 8, true)});
  });
  for (const bool causal : {false, true}) {
    add(causal ? "attention-causal" : "attention", [=](ModelBuilder& b, int x) {
      const AttentionHeads heads{.heads = 2, .kv_heads = 2, .causal = causal};
      return b.attention("core", {b.linear("qkv", x, 3 * width, true)}, heads);
    });
  }
  add("attention-grouped-rotary", [](ModelBuilder& b, int x) {
    const AttentionHeads heads{.heads = 4, .kv_heads = 2, .causal = true, .rotary_base = 100};
    return b.attention("core", {b.linear("q", x, 64, true), b.linear("kv", x, 64, false)}, heads);
  });
  add("attention-three", [](ModelBuilder& b, int x) {
    const AttentionHeads heads{.heads = 2, .kv_heads = 1};
    return b.attention(
        "core", {b.linear("q", x, 48, true), b.linear("k", x, 24, false), b.linear("v", x, 24, true)}, heads);
  });
  for (const LayerKind kind : {LayerKind::rnn, LayerKind::lstm, LayerKind::gru}) {
    const std::string name = name_of(kind);
    add((name + "-one").c_str(),
        [=](ModelBuilder& b, int x) { return b.recurrence(kind, "core", {x}, {.hidden = 24}); });
    add((name + "-stack").c_str(), [=](ModelBuilder& b, int x) {
      return b.recurrence(kind, "core", {x}, {.hidden = 16, .layers = 2, .bidirectional = true});
    });
    add((name + "-unrolled").c_str(), [=](ModelBuilder& b, int x) {
      return b.recurrence(kind, "core", {x},
                          {.hidden = 16, .layers = 2, .bidirectional = true, .unrolled = true});
    });
    for (const bool unrolled : {false, true}) {
      all.push_back(test::tiny_seq2seq(kind, unrolled));
      all.back().name += "-" + name + (unrolled ? "-unrolled" : "");
    }
  }
  all.push_back(test::tiny_transformer());
  all.push_back(test::tiny_llama());
  return all;
}

}  // namespace

TEST_CASE("gradients of sequence layers in fp32 agree with the reference") {
  for (const Model& model : cases())
    compare_gradients(open_backend("cuda"), model, options_of(model, Precision::fp32), 1e-5);
}
TEST_CASE("gradients of sequence layers in tf32 agree with the reference") {
  for (const Model& model : cases())
    compare_gradients(open_backend("cuda"), model, options_of(model, Precision::tf32), 5e-3);
}
// Of whole models, and of recurrences with weights so large that 24 steps amplify what rounding does, more.
TEST_CASE("gradients of sequence layers in bf16 agree with the reference") {
  for (const Model& model : cases()) {
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

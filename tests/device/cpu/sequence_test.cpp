// Layers of sequence models on the cpu backend against the double-precision reference. Skipped, and said so,
// where the backend was not built.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "sim/training/model_builder.hpp"
#include "tests/support/backend_pair.hpp"
#include "tests/support/cpu_backend.hpp"
#include "tests/support/models.hpp"
#include "tests/support/sequence_cases.hpp"

using namespace foretrain;
using namespace foretrain::device;
using namespace foretrain::test;

namespace {

constexpr int words = 48, length = 24, width = 32;

Model with_dropout() {
  ModelBuilder b("dropout-everywhere", {length}, words);
  b.take_tokens(words, length);
  int x = b.dropout("drop", b.embedding("embedding", b.input(), width, {}), 0.25);
  x = b.attention("core", {b.linear("qkv", x, 3 * width, true)},
                  {.heads = 2, .kv_heads = 2, .causal = true, .dropout = 0.25});
  x = b.recurrence(LayerKind::lstm, "fused", {x}, {.hidden = 16, .layers = 2, .dropout = 0.25});
  x = b.recurrence(LayerKind::gru, "loop", {x},
                   {.hidden = 16, .layers = 3, .unrolled = true, .dropout = 0.25});
  b.softmax_cross_entropy("loss", b.linear("output", x, words, true));
  return b.finish();
}

Optimizer clipped(OptimizerKind kind) {
  Optimizer optimizer;
  optimizer.kind = kind;
  optimizer.learning_rate = 1e-2;
  optimizer.clip_norm = 0.1;
  return optimizer;
}

}  // namespace

TEST_CASE("gradients of sequence layers on the cpu backend agree with the reference") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const Model& model : sequence_cases())
    compare_gradients(*cpu, model, options_of(model, Precision::fp32), 1e-5);
}

TEST_CASE("gradients of sequence layers do not depend on the threads of a worker") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr || cpu->device_count() < 2) return;
  ::setenv("FORETRAIN_THREADS", "2", 1);
  for (const Model& model : {tiny_transformer(), tiny_llama(), tiny_seq2seq(LayerKind::lstm)})
    compare_gradients(*cpu, model, options_of(model, Precision::fp32), 1e-5);
  ::unsetenv("FORETRAIN_THREADS");
}

TEST_CASE("dropout of the cpu backend keeps what the reference keeps, forward and backward") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  const Model model = with_dropout();
  compare_gradients(*cpu, model, options_of(model, Precision::fp32), 1e-5);
  const auto worker = cpu->make_worker(0);
  const auto program = worker->build(model, options_of(model, Precision::fp32));
  prepare(*program, model, 8);
  step(*program, false);
  const double first = program->loss();
  prepare(*program, model, 8);  // a new batch draws anew
  step(*program, false);
  CHECK(program->loss() != first);
}

TEST_CASE("gradients of tied weights on the cpu backend add up over micro-batches") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const Model& model : sequence_cases()) {
    CAPTURE(model.name);
    const auto worker = cpu->make_worker(0);
    const auto program = worker->build(model, options_of(model, Precision::fp32));
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
      CHECK(distance(program->read_gradient(static_cast<int>(p)), once[p]) < 1e-6);
    }
  }
}

TEST_CASE("a loss over many words, with tied output weights, agrees with the reference") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  constexpr int many = 5003;
  ModelBuilder b("large-vocabulary", {length}, many);
  b.take_tokens(many, length);
  const int table = b.embedding("embedding", b.input(), width, {});
  const int x = b.layer_norm("norm", table);
  b.softmax_cross_entropy("loss", b.linear("output", x, many, false, {}, table));
  const Model model = b.finish();
  compare_gradients(*cpu, model, options_of(model, Precision::fp32), 1e-5);
}

TEST_CASE("clipped updates of sequence models on the cpu backend agree with the reference") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    const Model model = tiny_llama();
    BuildOptions options = options_of(model, Precision::fp32);
    options.optimizer = clipped(kind);
    const Pair pair = build(*cpu, model, options);
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

TEST_CASE("the loss of a sequence model falls on the cpu backend, and a resumed one goes on bit for bit") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  const Model model = tiny_transformer(0.1);
  BuildOptions options = options_of(model, Precision::fp32);
  options.optimizer = clipped(OptimizerKind::adamw);
  options.optimizer.clip_norm = 1;
  const auto worker = cpu->make_worker(0);
  const auto unbroken = worker->build(model, options), resumed = worker->build(model, options);
  for (Program* program : {unbroken.get(), resumed.get()}) prepare(*program, model, 8);
  step(*unbroken, true);
  const double before = unbroken->loss();
  for (int i = 0; i < 100; ++i) step(*unbroken, true);
  CHECK(unbroken->loss() < 0.7 * before);
  for (std::size_t p = 0; p < model.parameters.size(); ++p)
    resumed->write_parameter(static_cast<int>(p), unbroken->read_parameter(static_cast<int>(p)));
  resumed->load_state(unbroken->save_state());
  for (Program* program : {unbroken.get(), resumed.get()})
    for (int i = 0; i < 5; ++i) step(*program, true);
  CHECK(unbroken->checksum() == resumed->checksum());
}

TEST_CASE("rows of a table that the cpu backend gathers make up the dense gradient") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const Model& model : {tiny_transformer(), tiny_seq2seq(LayerKind::lstm)}) {
    CAPTURE(model.name);
    const auto worker = cpu->make_worker(0);
    BuildOptions options = options_of(model, Precision::fp32);
    options.gathers_rows = true;
    const auto program = worker->build(model, options);
    prepare(*program, model, 8);
    step(*program, false);
    const std::vector<float> dense = program->read_gradient(0);
    const Buffer part = worker->allocate(program->sparse_bytes(0));
    program->gather_rows(0, part);
    program->add_rows(0, part, 1);
    CHECK(program->read_gradient(0) == dense);
    worker->release(part);
  }
}

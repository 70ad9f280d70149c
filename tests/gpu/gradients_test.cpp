// Loss, gradients and updates of the cuda backend against the double-precision reference, on models that hold
// every kind of layer and every fusion.
#include <doctest/doctest.h>

#include "device/registry.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/backend_pair.hpp"
#include "tests/support/layer_cases.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using namespace foretrain::test;

TEST_CASE("gradients in fp32 agree with the reference") {
  for (const LayerCase& c : layer_cases())
    compare_gradients(open_backend("cuda"), c.model, options_of(c.model, Precision::fp32), 1e-5);
}
TEST_CASE("a seed means the same initial weights as on the host") {
  for (const LayerCase& c : layer_cases()) compare_initial_weights(open_backend("cuda"), c.model, 1e-6);
}
TEST_CASE("gradients in tf32 agree with the reference") {
  for (const LayerCase& c : layer_cases()) {
    compare_gradients(open_backend("cuda"), c.model, options_of(c.model, Precision::tf32),
                      c.direct ? 3e-3 : 0.1);
  }
}
TEST_CASE("gradients in bf16 agree with the reference") {
  for (const LayerCase& c : layer_cases()) {
    if (c.direct)
      compare_gradients(open_backend("cuda"), c.model, options_of(c.model, Precision::bf16), 2e-2);
  }
}
TEST_CASE("gradients in bf16 and in fp16 buffers agree with the reference") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16}) {
    const Model model = built("buffers", {3, 12, 12}, [](ModelBuilder& b) {
      const int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), false);
      return b.conv2d("b", b.relu("r", b.batch_norm("n", x)), 8, window(3), true);
    });
    BuildOptions options = options_of(model, Precision::bf16);
    options.gradients = type;
    compare_gradients(open_backend("cuda"), model, options, 2e-2);
  }
}
TEST_CASE("gradients add up over micro-batches") {
  for (const LayerCase& c : layer_cases()) {
    if (c.model.name != "conv" && c.model.name != "linear" && c.model.name != "batch-norm-add-relu") continue;
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      CAPTURE(c.model.name);
      const auto worker = open_backend("cuda").make_worker(0);
      BuildOptions options = options_of(c.model, precision);
      options.deterministic = true;
      const auto program = worker->build(c.model, options);
      prepare(*program, c.model, 8);
      step(*program, false);
      std::vector<std::vector<float>> once;
      const int count = static_cast<int>(c.model.parameters.size());
      for (int p = 0; p < count; ++p) once.push_back(program->read_gradient(p));
      program->accumulate_gradients(true);
      step(*program, false);
      for (int p = 0; p < count; ++p) {
        for (float& value : once[static_cast<std::size_t>(p)]) value *= 2;
        CHECK(distance(program->read_gradient(p), once[static_cast<std::size_t>(p)]) < 1e-6);
      }
      program->accumulate_gradients(false);
      step(*program, false);
      for (int p = 0; p < count; ++p) {
        for (float& value : once[static_cast<std::size_t>(p)]) value /= 2;
        CHECK(distance(program->read_gradient(p), once[static_cast<std::size_t>(p)]) < 1e-6);
      }
    }
  }
}
TEST_CASE("a deterministic program repeats its gradients bit for bit") {
  const Model model = test::tiny_cnn();
  BuildOptions options = options_of(model, Precision::bf16);
  options.deterministic = true;
  const auto worker = open_backend("cuda").make_worker(0);
  std::uint64_t sums[2] = {};
  for (std::uint64_t& sum : sums) {
    const auto program = worker->build(model, options);
    for (int i = 0; i < 5; ++i) step(*program, true);
    sum = program->checksum();
  }
  CHECK(sums[0] == sums[1]);
}

TEST_CASE("updates agree with the reference") {
  const Model model = test::tiny_cnn();
  Optimizer sgd = model.optimizer, nesterov = sgd, adam = sgd, adamw = sgd, plain = sgd;
  sgd.momentum = 0.9;
  sgd.weight_decay = 0.01;
  nesterov = sgd;
  nesterov.nesterov = true;
  plain.momentum = 0;
  adam.kind = OptimizerKind::adam;
  adamw.kind = OptimizerKind::adamw;
  adam.weight_decay = adamw.weight_decay = 0.01;
  adam.learning_rate = adamw.learning_rate = 1e-3;
  for (const Optimizer& optimizer : {plain, sgd, nesterov, adam, adamw}) {
    CAPTURE(static_cast<int>(optimizer.kind));
    CAPTURE(optimizer.nesterov);
    BuildOptions options = options_of(model, Precision::fp32);
    options.optimizer = optimizer;
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

TEST_CASE("the loss falls on a batch that is shown again and again") {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const Model model = test::tiny_cnn();
    const auto worker = open_backend("cuda").make_worker(0);
    const auto program = worker->build(model, options_of(model, precision));
    step(*program, true);
    const double before = program->loss();
    for (int i = 0; i < 60; ++i) step(*program, true);
    CHECK(program->loss() < 0.2 * before);
  }
}

TEST_CASE("a saved program resumes where it was") {
  const Model model = test::tiny_cnn();
  BuildOptions options = options_of(model, Precision::bf16);
  options.deterministic = true;
  const auto worker = open_backend("cuda").make_worker(0);
  const auto unbroken = worker->build(model, options), resumed = worker->build(model, options);
  for (int i = 0; i < 3; ++i) step(*unbroken, true);
  const auto state = unbroken->save_state();
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    resumed->write_parameter(static_cast<int>(p), unbroken->read_parameter(static_cast<int>(p)));
  }
  resumed->load_state(state);
  for (int i = 0; i < 3; ++i) step(*unbroken, true);
  for (int i = 0; i < 3; ++i) step(*resumed, true);
  CHECK(unbroken->checksum() == resumed->checksum());
  CHECK(unbroken->save_state() == resumed->save_state());
  CHECK_THROWS_AS(resumed->load_state(std::span(state).first(10)), std::exception);
}

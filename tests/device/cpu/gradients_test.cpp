// Loss, gradients and updates of the cpu backend against the double-precision reference, on models that hold
// every kind of layer and every fusion. Skipped, and said so, where the backend was not built.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "device/registry.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/backend_pair.hpp"
#include "tests/support/cpu_backend.hpp"
#include "tests/support/layer_cases.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using namespace foretrain::test;

namespace {

// Of the gradients' norm. One kind of layer between two others keeps to the arithmetic's, which grows with
// the root of how many products a sum has (1.3e-5 was seen where AVX2 adds up 4,608); in networks of some
// depth roundings add up (2.1e-5 was seen).
constexpr double of_a_layer = 1e-5, of_a_network = 5e-5, short_sum = 2048;

double tolerance_of(const LayerCase& c) {
  if (!c.direct) return of_a_network;
  double longest = short_sum;
  for (const Parameter& parameter : c.model.parameters) {
    double products = 1;
    for (std::size_t d = 1; d < parameter.shape.size(); ++d)
      products *= static_cast<double>(parameter.shape[d]);
    longest = std::max(longest, products);
  }
  return of_a_layer * std::sqrt(longest / short_sum);
}

}  // namespace

TEST_CASE("gradients of the cpu backend agree with the reference") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const LayerCase& c : layer_cases())
    compare_gradients(*cpu, c.model, options_of(c.model, Precision::fp32), tolerance_of(c));
}

TEST_CASE("a seed means the same initial weights on the cpu backend as on the reference") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const LayerCase& c : layer_cases()) compare_initial_weights(*cpu, c.model, 0);
}

TEST_CASE("gradients of the cpu backend in bf16 agree with the reference where the processor has it") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  const auto worker = cpu->make_worker(0);
  try {
    worker->build(tiny_cnn(), options_of(tiny_cnn(), Precision::bf16));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unavailable);
    MESSAGE("skipped: " << std::string(error.what()));
    return;
  }
  for (const LayerCase& c : layer_cases())
    if (c.direct) compare_gradients(*cpu, c.model, options_of(c.model, Precision::bf16), 2e-2);
  for (const Model& model : {tiny_transformer(), tiny_llama()})
    compare_gradients(*cpu, model, options_of(model, Precision::bf16), 0.1);
  const auto program = worker->build(tiny_cnn(), options_of(tiny_cnn(), Precision::bf16));
  step(*program, true);
  const double before = program->loss();
  for (int i = 0; i < 60; ++i) step(*program, true);
  CHECK(program->loss() < 0.2 * before);
}

TEST_CASE("gradients of the cpu backend do not depend on a batch's remainder") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const std::int64_t batch : {1, 7, 33}) {
    BuildOptions options = options_of(tiny_cnn(), Precision::fp32);
    options.batch = batch;
    compare_gradients(*cpu, tiny_cnn(), options, of_a_network);
  }
}

TEST_CASE("gradients of the cpu backend add up over micro-batches") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  for (const LayerCase& c : layer_cases()) {
    CAPTURE(c.model.name);
    const auto worker = cpu->make_worker(0);
    const auto program = worker->build(c.model, options_of(c.model, Precision::fp32));
    prepare(*program, c.model, 8);
    const int count = static_cast<int>(c.model.parameters.size());
    std::vector<std::vector<float>> once;
    step(*program, false);
    for (int p = 0; p < count; ++p) once.push_back(program->read_gradient(p));
    program->accumulate_gradients(true);
    step(*program, false);
    for (int p = 0; p < count; ++p) {
      auto twice = once[static_cast<std::size_t>(p)];
      for (float& value : twice) value *= 2;
      CHECK(distance(program->read_gradient(p), twice) < 1e-6);
    }
    program->accumulate_gradients(false);
    step(*program, false);
    for (int p = 0; p < count; ++p) CHECK(program->read_gradient(p) == once[static_cast<std::size_t>(p)]);
  }
}

TEST_CASE("updates of the cpu backend agree with the reference") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  const Model model = tiny_cnn();
  Optimizer plain = model.optimizer;
  plain.momentum = 0;
  plain.weight_decay = 0.01;
  Optimizer sgd = plain, adam = plain;
  sgd.momentum = 0.9;
  Optimizer nesterov = sgd, clipped = sgd;
  nesterov.nesterov = true;
  clipped.clip_norm = 0.1;
  adam.kind = OptimizerKind::adam;
  adam.learning_rate = 1e-3;
  Optimizer adamw = adam;
  adamw.kind = OptimizerKind::adamw;
  for (const Optimizer& optimizer : {plain, sgd, nesterov, clipped, adam, adamw}) {
    CAPTURE(optimizer_entry_name(optimizer));
    // Adam divides by the gradient's own size: where that is next to nothing its rounding is not.
    const double tolerance = optimizer.kind == OptimizerKind::sgd ? 1e-4 : 1e-3;
    BuildOptions options = options_of(model, Precision::fp32);
    options.optimizer = optimizer;
    const Pair pair = build(*cpu, model, options);
    for (Program* program : {pair.program.get(), pair.reference.get()}) {
      program->set_gradient_scale(0.5);
      for (int i = 0; i < 3; ++i) step(*program, true);
    }
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      CAPTURE(model.parameters[p].name);
      const int index = static_cast<int>(p);
      CHECK(distance(pair.program->read_parameter(index), pair.reference->read_parameter(index)) < tolerance);
    }
  }
}

TEST_CASE("the cpu backend trains alike with one thread and with two, and resumes bit for bit") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  const Model model = tiny_cnn();
  const BuildOptions options = options_of(model, Precision::fp32);
  const auto worker = cpu->make_worker(0);
  const auto unbroken = worker->build(model, options), resumed = worker->build(model, options);
  for (Program* program : {unbroken.get(), resumed.get()}) prepare(*program, model, 8);
  for (int i = 0; i < 3; ++i) step(*unbroken, true);
  const double before = unbroken->loss();
  const auto state = unbroken->save_state();
  for (std::size_t p = 0; p < model.parameters.size(); ++p)
    resumed->write_parameter(static_cast<int>(p), unbroken->read_parameter(static_cast<int>(p)));
  resumed->load_state(state);
  for (Program* program : {unbroken.get(), resumed.get()})
    for (int i = 0; i < 20; ++i) step(*program, true);
  CHECK(unbroken->checksum() == resumed->checksum());
  CHECK(unbroken->loss() < before);
  CHECK_THROWS_AS(resumed->load_state(std::span(state).first(10)), Error);

  if (cpu->device_count() < 2) return;
  ::setenv("FORETRAIN_THREADS", "2", 1);
  const auto team = cpu->make_worker(0);
  ::unsetenv("FORETRAIN_THREADS");
  const auto together = team->build(model, options);
  prepare(*together, model, 8);
  for (int i = 0; i < 3; ++i) step(*together, true);
  CHECK(together->loss() == approx(before).epsilon(1e-4));
}

TEST_CASE("programs of the cpu backend that share weights train the same ones") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  const Model model = tiny_cnn();
  BuildOptions options = options_of(model, Precision::fp32);
  const auto worker = cpu->make_worker(0);
  const auto large = worker->build(model, options);
  options.batch = 3;
  options.shares = large.get();
  const auto small = worker->build(model, options);
  prepare(*small, model, 3);
  step(*small, true);
  CHECK(small->checksum() == large->checksum());
  CHECK(small->report().parameter_bytes == 0);
  CHECK(large->report().parameter_bytes > 0);
}

TEST_CASE("the cpu backend says what it does not compute") {
  Backend* cpu = cpu_backend();
  if (cpu == nullptr) return;
  const auto worker = cpu->make_worker(0);
  const Model model = tiny_cnn();
  BuildOptions options = options_of(model, Precision::fp32);
  options.gradients = ElementType::bf16;
  CHECK_THROWS_AS(worker->build(model, options), Error);
  CHECK_THROWS_AS(cpu->make_worker(cpu->device_count()), Error);
}

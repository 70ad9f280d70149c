// Loss, gradients and updates of the cuda backend against the double-precision reference, on models that hold
// every kind of layer and every fusion.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>

#include "device/registry.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using namespace foretrain::test;

namespace {

Window window(int kernel, int stride = 1, int padding = 0, int groups = 1, int dilation = 1) {
  Window w = square_window(kernel, stride, padding, groups);
  w.dilation_h = w.dilation_w = dilation;
  return w;
}

void classify(ModelBuilder& b, int x, int classes = 5) {
  b.softmax_cross_entropy("loss", b.linear("fc", b.flatten("flatten", x), classes, true));
}

Model built(const char* name, Shape input, const std::function<int(ModelBuilder&)>& body) {
  ModelBuilder b(name, std::move(input), 5);
  classify(b, body(b));
  Model model = b.finish();
  model.optimizer.momentum = 0.9;
  model.optimizer.learning_rate = 0.05;
  model.optimizer.weight_decay = 1e-2;
  return model;
}

// Each kind of layer between layers with weights, so that gradients pass through it. `direct`: every ReLU and
// max_pool decides on values that all precisions compute alike, since those before it are exact: then
// gradients are as close as the arithmetic. Elsewhere an element near zero may fall on the other side; a
// share p of such elements moves a gradient by about sqrt(p) in norm.
struct Case {
  Model model;
  bool direct = true;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const Shape image{3, 12, 12};
  all.push_back({test::tiny_cnn(), false});
  all.push_back({test::tiny_mlp(), false});
  const auto add = [&](const char* name, const Shape& input, const std::function<int(ModelBuilder&)>& body,
                       bool direct = true) {
    all.push_back({built(name, input, body), direct});
  };
  add("conv", image, [](ModelBuilder& b) {
    const int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), false);
    return b.conv2d("c", b.conv2d("b", x, 24, window(3, 2, 1), true), 8, window(1), false);
  });
  add("conv-bias-relu", image, [](ModelBuilder& b) {
    const int x = b.relu("ra", b.conv2d("a", b.input(), 16, window(3, 1, 1), true));
    return b.conv2d("b", x, 32, window(3, 1, 1), true);
  });
  add(
      "conv-bias-relu-twice", image,
      [](ModelBuilder& b) {
        const int x = b.relu("ra", b.conv2d("a", b.input(), 16, window(3, 1, 1), true));
        return b.max_pool("pool", b.relu("rb", b.conv2d("b", x, 32, window(3, 1, 1), true)), window(2, 2));
      },
      false);
  add("conv-dilated", image, [](ModelBuilder& b) {
    const int x = b.conv2d("a", b.input(), 16, window(5, 1, 2), false);
    return b.conv2d("b", x, 16, window(3, 1, 2, 1, 2), false);
  });
  add("conv-grouped", {16, 10, 10}, [](ModelBuilder& b) {
    return b.conv2d("b", b.conv2d("a", b.input(), 32, window(1), false), 32, window(3, 1, 1, 4), false);
  });
  add("batch-norm", image, [](ModelBuilder& b) {
    const int x = b.batch_norm("n", b.conv2d("a", b.input(), 16, window(3, 1, 1), false));
    return b.conv2d("b", x, 8, window(3), false);
  });
  for (const int channels : {13, 16, 40, 160, 512}) {
    all.push_back(
        {built(("batch-norm-relu-" + std::to_string(channels)).c_str(), image, [&](ModelBuilder& b) {
          const int x = b.conv2d("a", b.input(), channels, window(3, 1, 1), false);
          return b.conv2d("b", b.relu("r", b.batch_norm("n", x)), 8, window(3), false);
        })});
  }
  add("batch-norm-add-relu", image, [](ModelBuilder& b) {
    const int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), false);
    const int y = b.conv2d("b", b.input(), 16, window(3, 1, 1), false);
    return b.conv2d("c", b.relu("r", b.add("s", {b.batch_norm("n", x), y})), 8, window(3), false);
  });
  add("batch-norm-relu-read-twice", image, [](ModelBuilder& b) {
    const int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), false);
    const int y = b.relu("r", b.batch_norm("n", x));
    return b.add("s", {b.conv2d("c", y, 8, window(3), false), b.conv2d("d", y, 8, window(3), false)});
  });
  add("add-batch-norm-relu", image, [](ModelBuilder& b) {
    const int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), false);
    const int y = b.conv2d("b", b.input(), 16, window(3, 1, 1), false);
    const int sum = b.add("s", {x, y});
    const int z = b.conv2d("c", b.relu("r", b.batch_norm("n", sum)), 16, window(3, 1, 1), false);
    return b.add("t", {z, sum});
  });
  add(
      "residual", image,
      [](ModelBuilder& b) {
        int x = b.relu("r0", b.batch_norm("n0", b.conv2d("a", b.input(), 16, window(3, 1, 1), false)));
        for (const char* block : {"x", "y"}) {
          const std::string p = block;
          int y = b.relu(p + "r1", b.batch_norm(p + "n1", b.conv2d(p + "a", x, 16, window(3, 1, 1), false)));
          y = b.batch_norm(p + "n2", b.conv2d(p + "b", y, 16, window(3, 1, 1), false));
          x = b.relu(p + "r2", b.add(p + "s", {y, x}));
        }
        const int y = b.batch_norm("zn", b.conv2d("za", x, 32, window(3, 2, 1), false));
        const int shortcut = b.batch_norm("zm", b.conv2d("zb", x, 32, window(1, 2), false));
        return b.global_pool("pool", b.relu("zr", b.add("zs", {y, shortcut})));
      },
      false);
  add("batch-norm-add", image, [](ModelBuilder& b) {
    const int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), false);
    const int y = b.batch_norm("n", b.conv2d("b", x, 16, window(3, 1, 1), false));
    return b.conv2d("c", b.add("s", {x, y}), 8, window(3), false);
  });
  add(
      "pre-activation", image,
      [](ModelBuilder& b) {
        int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), false);
        for (const char* block : {"x", "y", "z"}) {
          const std::string p = block;
          int y = b.relu(p + "r1", b.batch_norm(p + "n1", x));
          y = b.conv2d(p + "a", y, 16, window(3, 1, 1), false);
          y = b.conv2d(p + "b", b.relu(p + "r2", b.batch_norm(p + "n2", y)), 16, window(3, 1, 1), false);
          x = b.add(p + "s", {y, x});
        }
        return b.global_pool("pool", b.relu("r", b.batch_norm("n", x)));
      },
      false);
  add("pools", image, [](ModelBuilder& b) {
    Window uncounted = window(3, 2, 1);
    uncounted.count_padding = false;
    int x = b.conv2d("a", b.input(), 16, window(3, 1, 1), true);
    x = b.conv2d("b", b.max_pool("max", x, window(3, 2, 1)), 16, window(3, 1, 1), false);
    x = b.conv2d("c", b.avg_pool("avg", x, uncounted), 16, window(3, 1, 1), false);
    return b.global_pool("global", b.avg_pool("avg2", x, window(2, 1, 1)));
  });
  add("shared", image, [](ModelBuilder& b) {  // one tensor, many readers
    const int x = b.relu("r", b.conv2d("a", b.input(), 16, window(3, 1, 1), false));
    const int y = b.conv2d("b", x, 16, window(3, 1, 1), true);
    const int z = b.conv2d("c", x, 16, window(1), true);
    return b.add("t", {b.add("s", {x, y, z}), b.max_pool("pool", x, window(3, 1, 1))});
  });
  add("linear", {40}, [](ModelBuilder& b) {
    const int x = b.relu("r", b.linear("a", b.input(), 64, true));
    return b.add("s", {x, b.linear("b", x, 64, false)});
  });
  return all;
}

}  // namespace

TEST_CASE("gradients in fp32 agree with the reference") {
  for (const Case& c : cases()) compare_gradients(c.model, options_of(c.model, Precision::fp32), 1e-5);
}
TEST_CASE("gradients in tf32 agree with the reference") {
  for (const Case& c : cases()) {
    compare_gradients(c.model, options_of(c.model, Precision::tf32), c.direct ? 3e-3 : 0.1);
  }
}
TEST_CASE("gradients in bf16 agree with the reference") {
  for (const Case& c : cases()) {
    if (c.direct) compare_gradients(c.model, options_of(c.model, Precision::bf16), 2e-2);
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
    compare_gradients(model, options, 2e-2);
  }
}
TEST_CASE("gradients add up over micro-batches") {
  for (const Case& c : cases()) {
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
    const Pair pair = build(model, options);
    for (Program* program : {pair.cuda.get(), pair.reference.get()}) {
      program->set_gradient_scale(0.5);
      for (int i = 0; i < 3; ++i) step(*program, true);
    }
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      CAPTURE(model.parameters[p].name);
      const int index = static_cast<int>(p);
      CHECK(distance(pair.cuda->read_parameter(index), pair.reference->read_parameter(index)) < 1e-3);
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

#include "tests/support/layer_cases.hpp"

#include <functional>

#include "sim/training/model_builder.hpp"
#include "tests/support/models.hpp"

namespace foretrain::test {
namespace {

void classify(ModelBuilder& b, int x, int classes = 5) {
  b.softmax_cross_entropy("loss", b.linear("fc", b.flatten("flatten", x), classes, true));
}

}  // namespace

Window window(int kernel, int stride, int padding, int groups, int dilation) {
  Window w = square_window(kernel, stride, padding, groups);
  w.dilation_h = w.dilation_w = dilation;
  return w;
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

std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> all;
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

}  // namespace foretrain::test

#include "tests/support/models.hpp"

#include <string>

#include "sim/training/model_builder.hpp"

namespace foretrain::test {
namespace {

int conv_bn(ModelBuilder& b, const std::string& conv, const std::string& bn, int x, int out, int kernel,
            int stride, int padding) {
  return b.batch_norm(bn, b.conv2d(conv, x, out, square_window(kernel, stride, padding), false));
}

int bottleneck(ModelBuilder& b, const std::string& name, int x, int width, int stride, bool project) {
  int y = b.relu(name + ".relu1", conv_bn(b, name + ".conv1", name + ".bn1", x, width, 1, 1, 0));
  y = b.relu(name + ".relu2", conv_bn(b, name + ".conv2", name + ".bn2", y, width, 3, stride, 1));
  y = conv_bn(b, name + ".conv3", name + ".bn3", y, 4 * width, 1, 1, 0);
  const int shortcut =
      project ? conv_bn(b, name + ".downsample.0", name + ".downsample.1", x, 4 * width, 1, stride, 0) : x;
  return b.relu(name + ".relu3", b.add(name + ".add", {y, shortcut}));
}

int basic(ModelBuilder& b, const std::string& name, int x, int width, int stride, bool project) {
  int y = b.relu(name + ".relu1", conv_bn(b, name + ".conv1", name + ".bn1", x, width, 3, stride, 1));
  y = conv_bn(b, name + ".conv2", name + ".bn2", y, width, 3, 1, 1);
  const int shortcut =
      project ? conv_bn(b, name + ".downsample.0", name + ".downsample.1", x, width, 1, stride, 0) : x;
  return b.relu(name + ".relu2", b.add(name + ".add", {y, shortcut}));
}

Optimizer sgd(double weight_decay) {
  Optimizer optimizer;
  optimizer.momentum = 0.9;
  optimizer.weight_decay = weight_decay;
  return optimizer;
}

void classify(ModelBuilder& b, int x, const std::string& name, int classes) {
  x = b.flatten("flatten", b.global_pool("avgpool", x));
  b.softmax_cross_entropy("loss", b.linear(name, x, classes, true));
}

Model resnet(const std::string& name, const int (&counts)[4],
             int (*block)(ModelBuilder&, const std::string&, int, int, int, bool), bool project_first) {
  ModelBuilder b(name, {3, 224, 224}, 1000);
  int x = b.relu("relu", conv_bn(b, "conv1", "bn1", b.input(), 64, 7, 2, 3));
  x = b.max_pool("maxpool", x, square_window(3, 2, 1));
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < counts[stage]; ++i) {
      const std::string path = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      const int stride = stage > 0 && i == 0 ? 2 : 1;
      x = block(b, path, x, 64 << stage, stride, i == 0 && (stage > 0 || project_first));
    }
  }
  classify(b, x, "fc", 1000);
  Model model = b.finish();
  model.optimizer = sgd(1e-4);
  return model;
}

}  // namespace

Model tiny_cnn() {
  ModelBuilder b("tiny-cnn", {3, 12, 12}, 5);
  int x = b.relu("relu1", conv_bn(b, "conv1", "bn1", b.input(), 8, 3, 1, 1));
  x = b.max_pool("maxpool", x, square_window(2, 2));
  int y = b.relu("relu2", conv_bn(b, "conv2", "bn2", x, 8, 3, 1, 1));
  y = conv_bn(b, "conv3", "bn3", y, 16, 3, 1, 1);
  const int shortcut = b.conv2d("shortcut", x, 16, square_window(1), false);
  x = b.relu("relu3", b.add("add", {y, shortcut}));
  x = b.avg_pool("avgpool", x, square_window(2, 2));
  x = b.flatten("flatten", b.global_pool("globalpool", x));
  b.softmax_cross_entropy("loss", b.linear("fc", x, 5, true));
  Model model = b.finish();
  model.optimizer = sgd(1e-4);
  return model;
}

Model tiny_mlp() {
  ModelBuilder b("tiny-mlp", {1, 4, 4}, 3);
  int x = b.flatten("flatten", b.input());
  x = b.relu("relu", b.linear("fc1", x, 8, true));
  b.softmax_cross_entropy("loss", b.linear("fc2", x, 3, true));
  Model model = b.finish();
  model.optimizer = sgd(0);
  return model;
}

Model resnet50() {
  return resnet("resnet50", {3, 4, 6, 3}, bottleneck, true);
}

Model resnet18() {
  return resnet("resnet18", {2, 2, 2, 2}, basic, false);
}

Model vgg16() {
  ModelBuilder b("vgg16", {3, 224, 224}, 1000);
  int x = b.input();
  int index = 0;
  const auto feature = [&index] { return "features." + std::to_string(index++); };
  for (const auto& [width, convolutions] : {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < convolutions; ++i) {
      x = b.conv2d(feature(), x, width, square_window(3, 1, 1), true);
      x = b.relu(feature(), x);
    }
    x = b.max_pool(feature(), x, square_window(2, 2));
  }
  x = b.flatten("flatten", x);
  x = b.relu("classifier.1", b.linear("classifier.0", x, 4096, true));
  x = b.relu("classifier.4", b.linear("classifier.3", x, 4096, true));
  b.softmax_cross_entropy("loss", b.linear("classifier.6", x, 1000, true));
  Model model = b.finish();
  model.optimizer = sgd(5e-4);
  model.optimizer.learning_rate = 0.01;
  return model;
}

Model wide_resnet(int depth, int widen) {
  ModelBuilder b("wrn-" + std::to_string(depth) + "-" + std::to_string(widen), {3, 32, 32}, 10);
  const int blocks = (depth - 4) / 6;
  int x = b.conv2d("conv1", b.input(), 16, square_window(3, 1, 1), false);
  for (int group = 0; group < 3; ++group) {
    const int width = (16 << group) * widen;
    for (int i = 0; i < blocks; ++i) {
      const std::string name = "layer" + std::to_string(group + 1) + "." + std::to_string(i);
      const int stride = group > 0 && i == 0 ? 2 : 1;
      const int activated = b.relu(name + ".relu1", b.batch_norm(name + ".bn1", x));
      int y = b.conv2d(name + ".conv1", activated, width, square_window(3, stride, 1), false);
      y = b.relu(name + ".relu2", b.batch_norm(name + ".bn2", y));
      y = b.conv2d(name + ".conv2", y, width, square_window(3, 1, 1), false);
      const int shortcut =
          i == 0 ? b.conv2d(name + ".shortcut", activated, width, square_window(1, stride), false) : x;
      x = b.add(name + ".add", {y, shortcut});
    }
  }
  x = b.relu("relu", b.batch_norm("bn", x));
  classify(b, x, "fc", 10);
  Model model = b.finish();
  model.optimizer = sgd(5e-4);
  return model;
}

}  // namespace foretrain::test

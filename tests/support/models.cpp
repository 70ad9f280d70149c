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

Model tiny_transformer(double dropout) {
  constexpr int width = 8, heads = 2, words = 11, length = 5;
  ModelBuilder b("tiny-transformer", {2, length}, words);
  b.take_tokens(words, length);
  int named = 0;
  const auto name = [&named](const char* text) { return std::string(text) + std::to_string(named++); };
  const auto dropped = [&](int x) { return dropout > 0 ? b.dropout(name("dropout"), x, dropout) : x; };
  const auto attended = [&](int x, int memory, bool causal) {
    const int norm = b.layer_norm(name("norm"), x);
    AttentionHeads core{.heads = heads, .kv_heads = heads, .causal = causal, .dropout = dropout};
    int y = 0;
    if (memory < 0) {
      y = b.attention(name("self"), {b.linear(name("qkv"), norm, 3 * width, false)}, core);
    } else {
      const int q = b.linear(name("q"), norm, width, false);
      y = b.attention(name("cross"), {q, b.linear(name("kv"), memory, 2 * width, false)}, core);
    }
    return b.add(name("add"), {x, dropped(b.linear(name("out"), y, width, false))});
  };
  const auto fed_forward = [&](int x) {
    const int inner = b.linear(name("inner"), b.layer_norm(name("norm"), x), 2 * width, true);
    const int outer = b.linear(name("outer"), b.gelu(name("gelu"), inner, x % 2 == 0), width, true);
    return b.add(name("add"), {x, dropped(outer)});
  };
  const int source = b.embedding("embedding", b.input(), width, {.positions = length + 2, .segments = 2});
  const int encoded = b.layer_norm("encoder_norm", fed_forward(attended(dropped(source), -1, false)));
  const int target =
      b.embedding("target", b.input(), width, {.sinusoidal = true, .scaled = true, .stream = 1}, {}, source);
  const int decoded = fed_forward(attended(attended(target, -1, true), encoded, false));
  b.softmax_cross_entropy("loss", b.linear("output", decoded, 0, true, {}, source));
  return b.finish();
}

Model tiny_llama() {
  constexpr int width = 16, words = 13, length = 6;
  ModelBuilder b("tiny-llama", {length}, words);
  b.take_tokens(words, length);
  int x = b.embedding("embedding", b.input(), width, {});
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = std::to_string(layer) + ".";
    const int norm = b.rms_norm(at + "norm", x);
    const AttentionHeads heads{.heads = 4, .kv_heads = 2, .causal = true, .rotary_base = 100};
    int core = 0;
    if (layer == 0) {
      core = b.attention(at + "core", {b.linear(at + "qkv", norm, 2 * width, false)}, heads);
    } else {
      const int k = b.linear(at + "k", norm, width / 2, false),
                v = b.linear(at + "v", norm, width / 2, false);
      core = b.attention(at + "core", {b.linear(at + "q", norm, width, true), k, v}, heads);
    }
    x = b.add(at + "add", {x, b.linear(at + "output", core, width, false)});
    const int mlp = b.rms_norm(at + "mlp_norm", x);
    const int gate = b.silu(at + "silu", b.linear(at + "gate", mlp, 24, false));
    const int product = b.multiply(at + "product", {gate, b.linear(at + "up", mlp, 24, false)});
    x = b.add(at + "mlp_add", {x, b.linear(at + "down", product, width, false)});
  }
  b.softmax_cross_entropy("loss", b.linear("output", b.rms_norm("norm", x), words, false));
  return b.finish();
}

Model tiny_seq2seq(LayerKind recurrence, bool unrolled) {
  constexpr int width = 6, hidden = 5, words = 7, length = 4;
  ModelBuilder b("tiny-seq2seq", {2, length}, words);
  b.take_tokens(words, length);
  RecurrentStack stack{.hidden = hidden, .layers = 2, .bidirectional = true, .unrolled = unrolled};
  const int source = b.embedding("source", b.input(), width, {});
  const int first = b.recurrence(recurrence, "first", {source}, stack);
  stack.gives_state = true;
  const int state = b.recurrence(recurrence, "encoder", {b.concat("beside", {first, source})}, stack);
  const int target = b.embedding("target", b.input(), width, {.stream = 1});
  stack = {.hidden = hidden, .layers = 2, .unrolled = unrolled};
  const int decoded = b.recurrence(recurrence, "decoder", {target, state}, stack);
  b.softmax_cross_entropy("loss", b.linear("output", decoded, words, true));
  return b.finish();
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

#include "sim/training/lowering.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "sim/base/error.hpp"
#include "sim/training/arena.hpp"
#include "sim/training/model_builder.hpp"
#include "sim/training/parameter_list.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::lowering;

namespace {

// An arena that remembers what was last written where, so that a read finds whether it is still there.
class Memory {
 public:
  void write(std::int64_t place, std::int64_t bytes, const std::string& what) {
    REQUIRE(place >= 0);
    for (auto held = held_.begin(); held != held_.end();) {
      const bool overlaps = held->first < place + bytes && place < held->first + held->second.bytes;
      held = overlaps ? held_.erase(held) : std::next(held);
    }
    held_[place] = {bytes, what};
    end_ = std::max(end_, place + bytes);
  }
  void check(std::int64_t place, const std::string& what) const {
    CAPTURE(what);
    const auto held = held_.find(place);
    REQUIRE(held != held_.end());
    CHECK(held->second.what == what);
  }
  std::string at(std::int64_t place) const {
    const auto held = held_.find(place);
    return held == held_.end() ? "" : held->second.what;
  }
  std::int64_t end() const { return end_; }

 private:
  struct Held {
    std::int64_t bytes;
    std::string what;
  };
  std::map<std::int64_t, Held> held_;
  std::int64_t end_ = 0;
};

// Runs a lowered model's steps on such a memory: values are named "v" and gradients "d" with their tensor; a
// gradient is a sum of the contributions of its tensor's readers, counted.
class Walk {
 public:
  Walk(const Lowered& lowered, const Model& model, std::int64_t batch, int element)
      : lowered_(lowered), model_(model), batch_(batch), element_(element) {}

  void run() {
    for (const Operator& op : lowered_.operators) forward(op);
    for (auto op = lowered_.operators.rbegin(); op != lowered_.operators.rend(); ++op) backward(*op);
    CHECK(memory_.end() <= lowered_.arena_bytes);
  }

 private:
  std::int64_t bytes(int tensor) const {
    return lowered_.tensors[static_cast<std::size_t>(tensor)].elements() * batch_ * element_;
  }
  static std::string value(int tensor) { return "v" + std::to_string(tensor); }
  bool wanted(int tensor) const { return lowered_.tensors[static_cast<std::size_t>(tensor)].differentiable; }
  void read(std::int64_t place, int tensor) const {
    if (tensor != 0) memory_.check(place, value(tensor));
  }
  static std::string memo(const Operator& op) { return "m" + std::to_string(op.layer); }

  void forward(const Operator& op) {
    if (op.forward_fused) return;
    if (op.kind == LayerKind::softmax_cross_entropy) {
      read(op.x, op.inputs[0]);
      write_gradient(op.dx, op.inputs[0], 1);
      return;
    }
    if (op.sum_of[0] >= 0) {
      for (int k = 0; k < 2; ++k) read(op.sum_at[k], op.sum_of[k]);
      memory_.write(op.x, bytes(op.inputs[0]), value(op.inputs[0]));
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) read(op.inputs_at[i], op.inputs[i]);
    if (op.residual >= 0) read(op.residual_at, op.residual);
    memory_.write(op.y, bytes(op.output), value(op.output));
    if (op.memo != nowhere) memory_.write(op.memo, memo_bytes(op), memo(op));
  }

  std::int64_t memo_bytes(const Operator& op) const {
    const std::int64_t rows = batch_ * lowered_.tensors[static_cast<std::size_t>(op.output)].pixels();
    if (op.kind == LayerKind::layer_norm) return 8 * rows;
    if (op.kind == LayerKind::rms_norm) return 4 * rows;
    if (op.kind == LayerKind::attention) {
      const Layer& layer = model_.layers[static_cast<std::size_t>(op.layer)];
      const std::int64_t keys = lowered_.tensors[static_cast<std::size_t>(op.inputs.back())].pixels();
      return rows * layer.attention.heads * (fuses_attention(layer, element_) ? 4 : keys * element_);
    }
    return bytes(op.output) / element_;
  }

  // The number of contributions that a place holds of what flows into `tensor`'s producer.
  int contributions(std::int64_t place) const {
    const std::string what = memory_.at(place);
    REQUIRE(what.substr(0, 1) == "d");
    return std::stoi(what.substr(1));
  }
  void write_gradient(std::int64_t place, int tensor, int count) {
    memory_.write(place, bytes(tensor), "d" + std::to_string(count));
  }

  void backward(const Operator& op) {
    if (op.kind == LayerKind::softmax_cross_entropy || op.kind == LayerKind::add) return;
    for (const GradientSum& s : op.sums) {
      write_gradient(s.sum, op.output, contributions(s.a) + contributions(s.b));
    }
    contributions(op.dy);
    if (op.dy2 != nowhere) contributions(op.dy2);
    const bool dense = op.kind == LayerKind::conv2d || op.kind == LayerKind::linear;
    const bool is_free = op.kind == LayerKind::relu || op.kind == LayerKind::max_pool ||
                         op.kind == LayerKind::avg_pool || op.kind == LayerKind::global_pool ||
                         op.kind == LayerKind::dropout || op.kind == LayerKind::concat;
    for (std::size_t i = 0; i < op.inputs.size() && !is_free; ++i) read(op.inputs_at[i], op.inputs[i]);
    const bool reads_output =
        op.kind == LayerKind::relu || op.kind == LayerKind::attention || is_recurrence(op.kind);
    if (reads_output || (dense && op.relu)) read(op.y, op.output);
    if (op.memo != nowhere) memory_.check(op.memo, memo(op));
    if (op.g != nowhere) write_gradient(op.g, op.output, 1);
    if (op.dy2 != nowhere) CHECK(op.g != nowhere);
    if (!op.inputs_dx.empty()) {
      CHECK(op.inputs_dx.size() == op.inputs.size());
      const std::string flows_in = memory_.at(op.dy);
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        if (wanted(op.inputs[i])) write_gradient(op.inputs_dx[i], op.inputs[i], 1);
      CHECK(memory_.at(op.dy) == flows_in);  // none of them lies over it
      return;
    }
    if (!wanted(op.inputs[0])) {
      CHECK(op.dx == nowhere);
      return;
    }
    int made = 1;
    if (op.existing != nowhere) made += contributions(op.existing);
    write_gradient(op.dx, op.inputs[0], made);
  }

  const Lowered& lowered_;
  const Model& model_;
  std::int64_t batch_;
  int element_;
  Memory memory_;
};

const Operator& operator_of(const Lowered& lowered, const Model& model, const std::string& layer) {
  for (const Operator& op : lowered.operators) {
    if (model.layers[static_cast<std::size_t>(op.layer)].name == layer) return op;
  }
  FAIL("no operator for " << layer);
  throw 0;
}

}  // namespace

TEST_CASE("an arena reuses what was released and never gives the same bytes twice") {
  ArenaPlan arena;
  const auto a = arena.acquire(1000), b = arena.acquire(300), c = arena.acquire(5000);
  CHECK(a % ArenaPlan::alignment == 0);
  CHECK(b >= a + 1000);
  CHECK(c >= b + 300);
  arena.release(b);
  CHECK(arena.acquire(512) == b);
  arena.release(a);
  arena.release(b);
  CHECK(arena.acquire(1500) == a);  // two neighbours, joined
  const std::int64_t before = arena.bytes();
  arena.release(c);
  CHECK(arena.acquire(6000) == c);  // a free tail grows
  CHECK(arena.bytes() > before);
}

TEST_CASE("no tensor is overwritten before its last reader, in any shipped model") {
  for (const Model& model : {test::tiny_cnn(), test::tiny_mlp(), test::resnet18(), test::resnet50(),
                             test::vgg16(), test::wide_resnet(16, 4), test::wide_resnet(28, 10)}) {
    CAPTURE(model.name);
    const Lowered lowered = lower(model, 4, 2);
    Walk(lowered, model, 4, 2).run();
  }
}

TEST_CASE("no tensor of a sequence model is overwritten before its last reader") {
  for (const Model& model : {test::tiny_transformer(), test::tiny_transformer(0.1), test::tiny_llama(),
                             test::tiny_seq2seq(LayerKind::lstm), test::tiny_seq2seq(LayerKind::gru, true)}) {
    CAPTURE(model.name);
    for (const int element : {2, 4}) Walk(lower(model, 3, element), model, 3, element).run();
  }
  const Model model = test::tiny_transformer();
  const Lowered lowered = lower(model, 3, 2);
  const Operator& loss = operator_of(lowered, model, "loss");
  CHECK(loss.dx == loss.x);  // over the logits
  CHECK(operator_of(lowered, model, "embedding").dx == nowhere);
  CHECK(operator_of(lowered, model, "encoder_norm").memo != nowhere);
}

TEST_CASE("layers are fused where nothing else reads what lies between") {
  const Model resnet = test::resnet50();
  const Lowered lowered = lower(resnet, 2, 2);
  for (const Operator& op : lowered.operators) {
    CHECK(op.kind != LayerKind::relu);
    CHECK(op.kind != LayerKind::add);
    CHECK(op.kind != LayerKind::flatten);
  }
  CHECK(operator_of(lowered, resnet, "layer1.0.bn3").residual >= 0);
  CHECK(operator_of(lowered, resnet, "layer1.0.bn3").relu);
  CHECK(!operator_of(lowered, resnet, "layer1.0.downsample.1").relu);
  CHECK(!lowered.tensors[0].differentiable);
  CHECK(operator_of(lowered, resnet, "conv1").dx == nowhere);

  const Model vgg = test::vgg16();
  for (const Operator& op : lower(vgg, 2, 2).operators) CHECK(op.kind != LayerKind::relu);

  // Pre-activation blocks: the sum of a block is made by the next block's batch norm.
  const Model wide = test::wide_resnet(16, 4);
  int made = 0;
  for (const Operator& op : lower(wide, 2, 2).operators) {
    if (op.kind == LayerKind::add) CHECK(op.forward_fused);
    made += op.sum_of[0] >= 0;
  }
  CHECK(made == 6);
}

TEST_CASE("a ReLU whose input others read stands alone") {
  ModelBuilder b("shared", {4, 8, 8}, 3);
  const int x = b.conv2d("a", b.input(), 8, square_window(3, 1, 1), true);
  const int sum = b.add("s", {b.relu("r", x), x, b.conv2d("c", x, 8, square_window(1), false)});
  b.softmax_cross_entropy("loss", b.linear("fc", b.flatten("flatten", sum), 3, true));
  const Model model = b.finish();
  const Lowered lowered = lower(model, 2, 4);
  CHECK(operator_of(lowered, model, "r").kind == LayerKind::relu);
  CHECK(!operator_of(lowered, model, "a").relu);
  CHECK(operator_of(lowered, model, "a").sums.size() == 2);  // three gradients meet
  Walk(lowered, model, 2, 4).run();
}

TEST_CASE(
    "a measured layer is planned as an operator that keeps its input; a list of parameters has no plan") {
  ModelBuilder b("odd", {4, 8, 8}, 3);
  const int x = b.conv2d("conv", b.input(), 8, square_window(1), false);
  const int y = b.measured("mystery", x, {.output = {8, 4}, .parameters = {}, .times = {}});
  b.softmax_cross_entropy("loss", b.linear("fc", b.flatten("flat", y), 3, true));
  const Model model = b.finish();
  const Lowered lowered = lower(model, 2, 4);
  const Operator& mystery = operator_of(lowered, model, "mystery");
  CHECK(mystery.kind == LayerKind::measured);
  CHECK(lowered.tensors[static_cast<std::size_t>(mystery.output)].elements() == 32);
  // Its input is still there when the backward pass begins: the loss's gradient lies elsewhere.
  CHECK(operator_of(lowered, model, "loss").dx != mystery.x);
  CHECK_THROWS_WITH_AS(lower(list_of_parameters("list", 10), 2, 4), doctest::Contains("list of parameters"),
                       Error);
}

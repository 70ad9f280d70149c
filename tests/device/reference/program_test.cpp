#include "device/reference/program.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "sim/base/error.hpp"
#include "sim/training/model_builder.hpp"
#include "sim/training/parameter_list.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using namespace foretrain::device;
using foretrain::test::approx;

namespace {

BuildOptions options_of(const Model& model, std::int64_t batch) {
  BuildOptions options;
  options.batch = batch;
  options.optimizer = model.optimizer;
  options.gradients = ElementType::fp64;
  return options;
}

void pass(Program& program, std::span<const WorkItem> items) {
  for (const WorkItem& item : items) program.issue(item);
}

double forward(Program& program) {
  pass(program, program.forward_items());
  return program.loss();
}

void step(Program& program) {
  program.prepare_weights();
  pass(program, program.forward_items());
  program.zero_gradients();
  pass(program, program.backward_items());
  program.update();
}

double gradient_at(Program& program, int parameter, std::int64_t element) {
  double value = 0;
  std::memcpy(
      &value,
      static_cast<const char*>(program.gradients().data) + 8 * (program.gradient_offset(parameter) + element),
      8);
  return value;
}

}  // namespace

TEST_CASE("the gradient of every parameter of a small network is the difference of its loss") {
  for (const Model& model :
       {test::tiny_cnn(), test::tiny_mlp(), test::tiny_transformer(), test::tiny_transformer(0.3),
        test::tiny_llama(), test::tiny_seq2seq(LayerKind::lstm), test::tiny_seq2seq(LayerKind::gru),
        test::tiny_seq2seq(LayerKind::rnn, true)}) {
    CAPTURE(model.name);
    const auto program = reference::make_program(model, options_of(model, 2));
    program->synthesize_input(3);
    forward(*program);
    pass(*program, program->backward_items());
    int checked = 0, wrong = 0;
    for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p) {
      const std::vector<float> kept = program->read_parameter(p);
      for (std::size_t i = 0; i < kept.size(); i += 1 + kept.size() / 7) {
        const double expected = gradient_at(*program, p, static_cast<std::int64_t>(i));
        const float h = 1.0F / (1 << 14);
        std::vector<float> moved = kept;
        moved[i] = kept[i] + h;
        const double up_at = moved[i];
        program->write_parameter(p, moved);
        const double up = forward(*program);
        moved[i] = kept[i] - h;
        const double down_at = moved[i];
        program->write_parameter(p, moved);
        const double down = forward(*program);
        program->write_parameter(p, kept);
        ++checked;
        // Parameters lose their double digits on the way through float: 1e-4 leaves room for that and for
        // the curvature.
        const double difference = (up - down) / (up_at - down_at);
        if (std::fabs(difference - expected) <= 1e-4 * (1 + std::fabs(expected))) continue;
        ++wrong;
        MESSAGE(model.parameters[static_cast<std::size_t>(p)].name << "[" << i << "]: " << expected
                                                                   << ", by difference " << difference);
      }
    }
    CHECK(checked > 15);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a shared weight has the sum of its readers' gradients, and a position without target none") {
  const Model model = test::tiny_transformer();
  const auto program = reference::make_program(model, options_of(model, 1));
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5};
  program->set_tokens(tokens, std::vector<std::int32_t>{-1, 7, -1, -1, -1});
  const double alone = forward(*program);
  pass(*program, program->backward_items());
  // Row 9 is no token: its gradient comes from the output alone, (softmax - target) times what the output
  // reads; all rows' sum over the classes is what the loss gives, zero.
  CHECK(gradient_at(*program, 0, 9 * 8) != 0);
  program->set_tokens(tokens, std::vector<std::int32_t>{3, 7, -1, -1, -1});
  const double both = forward(*program);
  program->set_tokens(tokens, std::vector<std::int32_t>{3, -1, -1, -1, -1});
  CHECK(both == approx((alone + forward(*program)) / 2));
  CHECK_THROWS_WITH_AS(program->set_tokens(tokens, std::vector<std::int32_t>{3}),
                       doctest::Contains("do not make a batch"), Error);
  CHECK_THROWS_WITH_AS(program->set_tokens(std::vector<std::int32_t>(10, 11), std::vector<std::int32_t>(5)),
                       doctest::Contains("there is no token 11"), Error);
}

TEST_CASE("masks of dropout are anew with every update, and as before after a resume") {
  Model of_images = test::tiny_mlp();
  for (Layer& layer : of_images.layers) {
    if (layer.kind != LayerKind::relu) continue;
    layer.kind = LayerKind::dropout;
    layer.probability = 0.3;
  }
  for (Model model : {test::tiny_transformer(0.3), of_images}) {
    CAPTURE(model.name);
    model.optimizer.learning_rate = 0;
    const auto program = reference::make_program(model, options_of(model, 2));
    program->synthesize_input(3);
    const double first = forward(*program);
    CHECK(forward(*program) == first);
    const std::vector<std::byte> state = program->save_state();
    step(*program);
    const double second = forward(*program);
    CHECK(second != first);
    program->load_state(state);
    CHECK(forward(*program) == first);
  }
}

TEST_CASE("gradients above the largest norm are scaled down to it") {
  const Model model = test::tiny_mlp();
  for (const double largest : {1e-3, 1e3}) {
    BuildOptions options = options_of(model, 4);
    options.optimizer = {.learning_rate = 1, .clip_norm = largest};
    const auto program = reference::make_program(model, options);
    program->synthesize_input(1);
    std::vector<std::vector<float>> before;
    for (int p = 0; p < 4; ++p) before.push_back(program->read_parameter(p));
    step(*program);
    double moved = 0, norm = 0;
    for (int p = 0; p < 4; ++p) {
      const std::vector<float> after = program->read_parameter(p);
      for (std::size_t i = 0; i < after.size(); ++i) {
        moved += std::pow(after[i] - before[static_cast<std::size_t>(p)][i], 2);
        norm += std::pow(gradient_at(*program, p, static_cast<std::int64_t>(i)), 2);
      }
    }
    CHECK(std::sqrt(moved) == approx(std::min(largest, std::sqrt(norm))).epsilon(1e-3));
  }
}

TEST_CASE("items come in the order of a step, and nothing is computed for the input") {
  const Model model = test::tiny_mlp();
  const auto program = reference::make_program(model, options_of(model, 1));
  std::string order;
  for (const WorkItem& item : program->backward_items())
    order += model.layers[static_cast<std::size_t>(item.layer)].name +
             (item.pass == Pass::backward_weights ? ":weights " : ":data ");
  CHECK(order == "loss:data fc2:weights fc2:data relu:data fc1:weights fc1:data ");
  CHECK(program->forward_items().size() == model.layers.size() - 1);
  CHECK(program->launches(program->forward_items()[0]) == 1);
}

TEST_CASE("gradients lie flat in reverse order of registration") {
  const Model model = test::tiny_mlp();
  BuildOptions options = options_of(model, 1);
  options.gradients = ElementType::bf16;
  const auto program = reference::make_program(model, options);
  CHECK(program->gradient_offset(3) == 0);
  CHECK(program->gradient_offset(2) == 3);
  CHECK(program->gradient_offset(0) == 3 + 24 + 8);
  CHECK(program->gradients().bytes == 2 * model.parameter_count());
  CHECK(program->report().gradient_bytes == 2 * model.parameter_count());
}

TEST_CASE("SGD with momentum, weight decay and gradient scale follows its equations") {
  const Model model = test::tiny_mlp();
  for (const bool nesterov : {false, true}) {
    BuildOptions options = options_of(model, 4);
    options.optimizer = {.learning_rate = 0.5, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov};
    const auto program = reference::make_program(model, options);
    program->synthesize_input(1);
    program->set_gradient_scale(0.25);
    double weight = program->read_parameter(0)[5], velocity = 0;
    for (int i = 0; i < 3; ++i) {
      step(*program);
      const double g = 0.25 * gradient_at(*program, 0, 5) + 0.01 * weight;
      velocity = 0.9 * velocity + g;
      weight -= 0.5 * (nesterov ? g + 0.9 * velocity : velocity);
      CHECK(program->read_parameter(0)[5] == approx(weight).epsilon(1e-6));
    }
  }
}

TEST_CASE("Adam's first step moves each weight by the learning rate against its gradient") {
  const Model model = test::tiny_mlp();
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::adamw}) {
    BuildOptions options = options_of(model, 4);
    options.optimizer = {.kind = kind, .learning_rate = 0.125};
    const auto program = reference::make_program(model, options);
    program->synthesize_input(1);
    const float before = program->read_parameter(2)[0];
    step(*program);
    const double moved = gradient_at(*program, 2, 0) > 0 ? -0.125 : 0.125;
    CHECK(program->read_parameter(2)[0] - before == approx(moved).epsilon(1e-4));
  }
}

TEST_CASE("training lowers the loss, the same seed gives the same bits, and a restored state goes on alike") {
  const Model model = test::tiny_cnn();
  const auto program = reference::make_program(model, options_of(model, 8));
  const auto twin = reference::make_program(model, options_of(model, 8));
  for (Program* each : {program.get(), twin.get()}) each->synthesize_input(5);
  const double first = forward(*program);
  for (int i = 0; i < 25; ++i) step(*program);
  CHECK(program->loss() < 0.5 * first);
  for (int i = 0; i < 25; ++i) step(*twin);
  CHECK(program->checksum() == twin->checksum());
  CHECK(program->checksum() != reference::make_program(model, options_of(model, 8))->checksum());

  const auto restored = reference::make_program(model, options_of(model, 8));
  restored->synthesize_input(5);
  restored->load_state(program->save_state());
  for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p)
    restored->write_parameter(p, program->read_parameter(p));
  step(*program);
  step(*restored);
  CHECK(restored->loss() == approx(program->loss()).epsilon(1e-6));
  CHECK(restored->save_state().size() == program->save_state().size());
  CHECK_THROWS_AS(restored->load_state({}), Error);
}

TEST_CASE("what cannot be computed, and inputs that do not fit, are errors") {
  ModelBuilder b("m", {2, 1, 1}, 2);
  MeasuredLayer given;
  given.output = {2};
  b.softmax_cross_entropy("loss", b.measured("unknown", 0, given));
  const Model unknown = b.finish();
  CHECK_THROWS_WITH_AS(reference::make_program(unknown, options_of(unknown, 1)),
                       "layer 'unknown' of model 'm' is given by its times and cannot be computed", Error);
  const Model list = list_of_parameters("list", 10);
  CHECK_THROWS_AS(reference::make_program(list, options_of(list, 1)), Error);
  const Model model = test::tiny_mlp();
  const auto program = reference::make_program(model, options_of(model, 1));
  const std::vector<float> image(16);
  const std::vector<std::int32_t> label = {3};
  CHECK_THROWS_AS(program->set_input(image, label), Error);
  CHECK_THROWS_AS(program->set_input({}, {}), Error);
  CHECK_THROWS_AS(program->write_parameter(0, image), Error);
}

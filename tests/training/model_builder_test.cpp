#include "sim/training/model_builder.hpp"

#include <doctest/doctest.h>

#include "tests/support/models.hpp"

using namespace foretrain;

namespace {

std::string error_of(ModelBuilder& builder) {
  try {
    builder.finish();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("parameter counts are those of the papers and of torchvision") {
  CHECK(test::resnet50().parameter_count() == 25'557'032);
  CHECK(test::resnet18().parameter_count() == 11'689'512);
  CHECK(test::vgg16().parameter_count() == 138'357'544);
  CHECK(test::wide_resnet(16, 4).parameter_count() == 2'748'890);
  CHECK(test::wide_resnet(28, 10).parameter_count() == 36'479'194);
}

TEST_CASE("a forward pass takes two operations a multiply-accumulate") {
  CHECK(test::resnet50().forward_flops().count() == 2.0 * 4'089'184'256);
  CHECK(test::vgg16().forward_flops().count() == 2.0 * 15'470'264'320);
  CHECK(test::wide_resnet(16, 4).forward_flops().count() == 2.0 * 392'612'352);
  CHECK(test::wide_resnet(28, 10).forward_flops().count() == 2.0 * 5'243'328'768);
}

TEST_CASE("parameters are named and ordered as PyTorch registers them") {
  const Model model = test::resnet50();
  REQUIRE(model.parameters.size() == 161);
  CHECK(model.parameters[0].name == "conv1.weight");
  CHECK(model.parameters[0].shape == Shape{64, 3, 7, 7});
  CHECK(model.parameters[1].name == "bn1.weight");
  CHECK(model.parameters[2].name == "bn1.bias");
  CHECK(model.parameters[3].name == "layer1.0.conv1.weight");
  CHECK(model.parameters[12].name == "layer1.0.downsample.0.weight");
  CHECK(model.parameters[160].name == "fc.bias");
  CHECK(model.layers[static_cast<std::size_t>(model.parameters[160].layer)].name == "fc");
}

TEST_CASE("equal work has equal keys, and a bias shows") {
  const Model model = test::tiny_cnn();
  CHECK(operator_key(model, model.layers[1]) == "conv2d in=3x12x12 out=8x12x12 k=3x3 s=1x1 p=1x1 d=1x1 g=1");
  CHECK(operator_key(model, model.layers[2]) == "batch_norm in=8x12x12 out=8x12x12");
  CHECK(operator_key(model, model.layers[model.layers.size() - 2]) == "linear in=16 out=5 bias");
  CHECK(operator_key(model, model.layers[model.layers.size() - 1]) == "softmax_cross_entropy in=5 out=1");
}

TEST_CASE("convolutions and pools infer their output as PyTorch does") {
  ModelBuilder b("m", {4, 7, 9}, 2);
  Window window;
  window.kernel_h = 3;
  window.kernel_w = 2;
  window.stride_h = 2;
  window.stride_w = 3;
  window.pad_h = 1;
  window.dilation_w = 2;
  window.groups = 2;
  const int conv = b.conv2d("conv", b.input(), 6, window, true);
  // floor((7 + 2 - 2 - 1) / 2) + 1 = 4; floor((9 - 2 - 1) / 3) + 1 = 3
  CHECK(b.output(conv) == Shape{6, 4, 3});
  CHECK(b.output(b.max_pool("pool", conv, square_window(3, 2, 1))) == Shape{6, 2, 2});
  CHECK(b.output(b.global_pool("mean", conv)) == Shape{6, 1, 1});
  CHECK(b.output(b.flatten("flat", conv)) == Shape{72});
  CHECK(b.findings().empty());
}

TEST_CASE("one mistake is one finding, with its position") {
  ModelBuilder b("m", {3, 4, 4}, 2);
  const int conv = b.conv2d("conv", b.input(), 8, square_window(7), false, {"m.yaml", 5, 3});
  const int relu = b.relu("relu", conv);
  const int bad_groups = b.conv2d("conv2", b.input(), 8, square_window(1, 1, 0, 2), false, {"m.yaml", 7, 3});
  b.add("add", {relu, bad_groups});
  const std::string text = error_of(b);
  CHECK(text ==
        "m.yaml:5:3: conv2d 'conv': a kernel of 7x7 does not fit into an input of 3x4x4; use a smaller "
        "kernel, more "
        "padding or fewer strides before it\n"
        "m.yaml:7:3: conv2d 'conv2': groups (2) must divide the channels of input (3) and output (8)");
}

TEST_CASE("a model ends with its loss, leaves no branch open and has unique names") {
  ModelBuilder open("m", {3, 4, 4}, 2);
  open.relu("a", open.input());
  CHECK(error_of(open) == "the model ends with 'a'; a model to be trained ends with softmax_cross_entropy");

  ModelBuilder loose("m", {2, 1, 1}, 2);
  loose.relu("unused", loose.input());
  loose.softmax_cross_entropy("loss", loose.flatten("flat", loose.input()));
  CHECK(error_of(loose) == "no layer reads the output of 'unused'");

  ModelBuilder twins("m", {2, 1, 1}, 2);
  twins.relu("a", twins.relu("a", twins.input()));
  CHECK(error_of(twins) == "there are two layers named 'a'; names must differ");

  ModelBuilder classes("m", {2, 1, 1}, 3);
  classes.softmax_cross_entropy("loss", classes.flatten("flat", classes.input()));
  CHECK(error_of(classes) == "softmax_cross_entropy reads 2 values, but the model has 3 classes");
}

TEST_CASE("branches of different shapes do not join, and linear wants features") {
  ModelBuilder b("m", {3, 4, 4}, 2);
  const int half = b.max_pool("pool", b.input(), square_window(2, 2));
  b.add("add", {b.input(), half});
  b.linear("fc", half, 2, true);
  CHECK(error_of(b) ==
        "add 'add' joins branches of different shapes: 3x4x4 and 3x2x2\n"
        "linear 'fc' needs features, but its input is 3x2x2; put flatten before it");
}

TEST_CASE("sizes are bounded") {
  ModelBuilder b("m", {3, 4, 4}, 2);
  b.conv2d("huge", b.input(), std::int64_t{1} << 50, square_window(1), false);
  CHECK(error_of(b).find("is too large") != std::string::npos);

  ModelBuilder deep("m", {3, 4, 4}, 2);
  int x = deep.input();
  for (int i = 0; i <= ModelBuilder::max_layers; ++i) x = deep.relu("r" + std::to_string(i), x);
  CHECK(error_of(deep) == "the model has more than 100000 layers");
}

TEST_CASE("a measured layer stands for an operator we do not know") {
  ModelBuilder b("m", {3, 4, 4}, 2);
  MeasuredLayer given;
  given.output = {2};
  given.parameters = {{"weight", {2, 48}, 0, -1}};
  given.times.forward = Time::microseconds(20);
  b.softmax_cross_entropy("loss", b.measured("attention", b.input(), given));
  const Model model = b.finish();
  REQUIRE(model.parameters.size() == 1);
  CHECK(model.parameters[0].name == "attention.weight");
  CHECK(model.parameter_count() == 96);
  CHECK(model.layers[1].measured->forward == Time::microseconds(20));
  CHECK(operator_key(model, model.layers[1]) == "measured m/attention in=3x4x4 out=2");
}

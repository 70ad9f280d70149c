#include "sim/training/model_description.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

LayerDescription layer(std::string type, std::string name = "", std::vector<Argument> arguments = {}) {
  LayerDescription made;
  made.type = std::move(type);
  made.name = std::move(name);
  made.arguments = std::move(arguments);
  return made;
}

LayerDescription container(std::string type, std::vector<LayerDescription> layers, std::string name = "",
                           std::vector<Argument> arguments = {}) {
  LayerDescription made = layer(std::move(type), std::move(name), std::move(arguments));
  made.layers = std::move(layers);
  return made;
}

Argument argument(std::string key, std::string value, int line = 0) {
  return {std::move(key), {std::move(value)}, {line > 0 ? "m.yaml" : "", line, line > 0 ? 1 : 0}};
}

// An image model with the layers given between the input and flatten, linear, loss.
ModelDescription model_of(std::vector<LayerDescription> layers) {
  ModelDescription description;
  description.name = "m";
  description.input = {4, 8, 8};
  description.classes = 3;
  description.layers = std::move(layers);
  description.layers.push_back(layer("flatten"));
  description.layers.push_back(layer("linear", "fc", {argument("out", "3")}));
  description.layers.push_back(layer("softmax_cross_entropy", "loss"));
  return description;
}

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const Layer& each : model.layers) names.push_back(each.name);
  return names;
}

std::string error_of(const ModelDescription& description) {
  try {
    expand(description);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

LayerDescription conv(std::string name, std::string out, int line = 0) {
  return layer("conv2d", std::move(name), {argument("out", std::move(out), line), argument("kernel", "1")});
}

}  // namespace

TEST_CASE("layers without a name are numbered in a sequence and called by their type elsewhere") {
  const Model model = expand(model_of({
      layer("relu"),
      container(
          "sequence",
          {conv("", "4"), layer("relu"), container("repeat", {layer("relu")}, "", {argument("times", "2")})},
          "features"),
      layer("relu"),
      container("repeat", {layer("relu"), conv("c", "4")}, "stage", {argument("times", "2")}),
  }));
  CHECK(names_of(model) == std::vector<std::string>{"input", "relu", "features.0", "features.1", "features.2",
                                                    "features.3", "relu_2", "stage.0.relu", "stage.0.c",
                                                    "stage.1.relu", "stage.1.c", "flatten", "fc", "loss"});
}

TEST_CASE(
    "a residual joins its body with its input, or with a shortcut, which may read a layer of the body") {
  LayerDescription identity = container("residual", {layer("relu", "act"), conv("c1", "4")});
  LayerDescription projected = container("residual", {layer("relu", "act2"), conv("c2", "8")}, "join");
  projected.shortcut = {conv("project", "8")};
  projected.shortcut[0].from = {"act2"};
  const Model model = expand(model_of({identity, projected}));
  CHECK(names_of(model) == std::vector<std::string>{"input", "act", "c1", "add", "act2", "c2", "project",
                                                    "join", "flatten", "fc", "loss"});
  CHECK(model.layers[3].inputs == std::vector<int>{2, 0});
  CHECK(model.layers[6].inputs == std::vector<int>{4});
  CHECK(model.layers[7].inputs == std::vector<int>{5, 6});
}

TEST_CASE("blocks take parameters with defaults, constants and the counter of a repeat") {
  BlockDescription block;
  block.name = "wide";
  block.parameters = {{"width", std::nullopt, {}}, {"project", argument("project", "k == 2"), {}}};
  block.layers = {conv("c", "k*width"), layer("relu")};
  block.layers[1].when = argument("when", "project");
  ModelDescription description = model_of({container(
      "sequence",
      {container("repeat",
                 {layer("wide", "", {argument("width", "4*(i + 1)"), argument("project", "i == 1")})}, "",
                 {argument("times", "2")}),
       layer("wide", "", {argument("width", "1")})},
      "s")});
  description.layers[0].layers[0].index = "i";
  description.constants = {argument("k", "2")};
  description.blocks = {block};
  const Model model = expand(description);
  CHECK(names_of(model) == std::vector<std::string>{"input", "s.0.c", "s.1.c", "s.1.relu", "s.2.c",
                                                    "s.2.relu", "flatten", "fc", "loss"});
  CHECK(model.layers[1].output[0] == 8);
  CHECK(model.layers[2].output[0] == 16);
  CHECK(model.layers[4].output[0] == 2);
}

TEST_CASE("names are searched outwards, and input is what enters the block") {
  BlockDescription block;
  block.name = "b";
  block.layers = {layer("relu", "a"), layer("add", "sum")};
  block.layers[1].from = {"input"};
  ModelDescription description = model_of({layer("relu", "outer"), layer("b", "one"), layer("add", "far")});
  description.blocks = {block};
  description.layers[2].from = {"one.a"};
  const Model model = expand(description);
  CHECK(names_of(model)[3] == "one.sum");
  CHECK(model.layers[3].inputs == std::vector<int>{2, 1});
  CHECK(model.layers[4].inputs == std::vector<int>{3, 2});
}

TEST_CASE("a mistake in a block that is used many times is reported once, with its place") {
  BlockDescription block;
  block.name = "b";
  block.layers = {conv("c", "widht", 12)};
  ModelDescription description = model_of({container("repeat", {layer("b")}, "s", {argument("times", "5")})});
  description.blocks = {block};
  CHECK(error_of(description) ==
        "m.yaml:12:1: 'widht' is no integer expression: there is no parameter 'widht'; known are classes");
}

TEST_CASE("unknown layers, blocks' parameters and names are findings") {
  BlockDescription block;
  block.name = "bottleneck";
  block.parameters = {{"width", std::nullopt, {}}};
  block.layers = {conv("c", "width")};
  ModelDescription description = model_of({layer("bottelneck", "x")});
  description.blocks = {block};
  CHECK(error_of(description) == "there is no layer 'bottelneck', did you mean 'bottleneck'?");
  description = model_of({layer("bottleneck", "x", {argument("widht", "4", 3)})});
  description.blocks = {block};
  CHECK(error_of(description) ==
        "block 'bottleneck' needs 'width'\n"
        "m.yaml:3:1: block 'bottleneck' has no parameter 'widht', did you mean 'width'?");
  description = model_of({layer("relu", "first"), layer("relu", "second")});
  description.layers[1].from = {"frist"};
  CHECK(error_of(description) == "no layer before this one is called 'frist', did you mean 'first'?");
}

TEST_CASE("expansion is bounded") {
  BlockDescription block;
  block.name = "b";
  block.layers = {layer("b")};
  ModelDescription description = model_of({layer("b")});
  description.blocks = {block};
  CHECK(error_of(description) == "block 'b' contains itself");

  LayerDescription nothing = layer("relu");
  nothing.when = argument("when", "0");
  LayerDescription inner = container("repeat", {nothing}, "", {argument("times", "100000")});
  description = model_of({container("repeat", {inner}, "", {argument("times", "100000")})});
  CHECK(error_of(description).find("more than 2,000,000 steps") != std::string::npos);

  LayerDescription deep = layer("relu");
  for (int i = 0; i < 100; ++i) deep = container("sequence", {deep}, "s");
  CHECK(error_of(model_of({deep})).find("nested more than 48 deep") != std::string::npos);
  CHECK(error_of(model_of({container("repeat", {layer("relu")}, "", {argument("times", "-1")})})) ==
        "times lies between 0 and 100000, not -1");
}

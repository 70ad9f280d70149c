#include "sim/input/model_reader.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "sim/base/random.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;

namespace {

std::shared_ptr<const Model> shipped(const std::string& name) {
  Diagnostics diagnostics;
  const auto root =
      read_document(std::string(FORETRAIN_SOURCE_DIR) + "/models/" + name + ".yaml", diagnostics);
  std::shared_ptr<const Model> model = root ? read_model(*root, diagnostics) : nullptr;
  for (const Diagnostic& finding : diagnostics.errors()) MESSAGE(finding.text());
  REQUIRE(model != nullptr);
  return model;
}

std::shared_ptr<const Model> read_text(const std::string& text, std::string* findings = nullptr) {
  Diagnostics diagnostics;
  const auto root = parse_document(text, "m.yaml", diagnostics);
  std::shared_ptr<const Model> model = root ? read_model(*root, diagnostics) : nullptr;
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + '\n';
  if (findings) *findings = all;
  if (!findings && !all.empty()) FAIL(all);
  return model;
}

std::string errors_of(const std::string& text) {
  std::string findings;
  CHECK(read_text(text, &findings) == nullptr);
  return findings;
}

// Three lines of head; layers begin on line 5.
std::string with_layers(const std::string& layers) {
  return "name: m\ninput: { channels: 4, height: 8, width: 8 }\nclasses: 3\nlayers:\n" + layers +
         "- flatten\n- linear: { out: classes }\n- softmax_cross_entropy\n";
}

}  // namespace

TEST_CASE("the shipped models are those built layer by layer") {
  const std::pair<const char*, Model> expected[] = {{"resnet50", test::resnet50()},
                                                    {"resnet18", test::resnet18()},
                                                    {"vgg16", test::vgg16()},
                                                    {"wrn-16-4", test::wide_resnet(16, 4)},
                                                    {"wrn-28-10", test::wide_resnet(28, 10)}};
  for (const auto& each : expected) {
    const auto& name = each.first;
    const auto& built = each.second;
    CAPTURE(name);
    const auto read = shipped(name);
    CHECK(read->name == name);
    CHECK(read->title != name);
    CHECK(read->unit == "images");
    CHECK(read->classes == built.classes);
    CHECK(read->optimizer == built.optimizer);
    REQUIRE(read->layers.size() == built.layers.size());
    REQUIRE(read->parameters.size() == built.parameters.size());
    for (std::size_t i = 0; i < built.layers.size(); ++i) {
      CAPTURE(built.layers[i].name);
      CHECK(read->layers[i].name == built.layers[i].name);
      CHECK(read->layers[i].inputs == built.layers[i].inputs);
      CHECK(operator_key(*read, read->layers[i]) == operator_key(built, built.layers[i]));
    }
    for (std::size_t i = 0; i < built.parameters.size(); ++i) {
      CHECK(read->parameters[i].name == built.parameters[i].name);
      CHECK(read->parameters[i].shape == built.parameters[i].shape);
    }
  }
}

TEST_CASE("layer by layer, shapes, parameters and operations are the published ones") {
  std::ifstream file(std::string(FORETRAIN_SOURCE_DIR) + "/tests/data/model_layers.csv");
  std::map<std::string, std::shared_ptr<const Model>> models;
  std::map<std::string, std::size_t> next;
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("model,")) continue;
    CAPTURE(line);
    std::vector<std::string> cells;
    std::stringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    REQUIRE(cells.size() == 9);
    auto& model = models[cells[0]];
    if (!model) model = shipped(cells[0]);
    std::size_t& at = next[cells[0]];
    while (at < model->layers.size() && model->layers[at].parameters.empty()) ++at;
    REQUIRE(at < model->layers.size());
    const Layer& layer = model->layers[at++];
    CHECK(layer.kind == (cells[1] == "conv" ? LayerKind::conv2d
                         : cells[1] == "bn" ? LayerKind::batch_norm
                                            : LayerKind::linear));
    CHECK(layer.output[0] == std::stoll(cells[2]));
    if (layer.kind == LayerKind::conv2d) {
      CHECK(layer.window.kernel_h == std::stoi(cells[3]));
      CHECK(layer.window.stride_h == std::stoi(cells[4]));
    }
    if (layer.output.size() == 3) {
      CHECK(layer.output[1] == std::stoll(cells[5]));
      CHECK(layer.output[2] == std::stoll(cells[6]));
    }
    std::int64_t parameters = 0;
    for (const int p : layer.parameters)
      parameters += model->parameters[static_cast<std::size_t>(p)].elements;
    CHECK(parameters == std::stoll(cells[7]));
    CHECK(layer.forward_flops.count() == 2 * std::stod(cells[8]));
    ++rows;
  }
  CHECK(rows == 107 + 16 + 30 + 54);
  for (const auto& [name, model] : models) {
    std::size_t& at = next[name];
    while (at < model->layers.size() && model->layers[at].parameters.empty()) ++at;
    CHECK(at == model->layers.size());
  }
}

TEST_CASE("a model may be a list of parameters, or their number") {
  const auto list =
      read_text("name: m\nparameters:\n- { name: a, shape: [3, 4] }\n- { name: b, shape: [3] }\n");
  CHECK(list->parameter_count() == 15);
  CHECK(list->parameters[1].name == "b");
  const auto count = read_text("parameters: 60880896\nunit: words\n");
  CHECK(count->parameter_count() == 60'880'896);
  CHECK(count->unit == "words");
  CHECK(count->name == "m");
  CHECK(errors_of("parameters: 0\n") ==
        "m.yaml:1:13: parameters: '0' is out of range: it must be at least 1\n");
  CHECK(errors_of("parameters: []\n") == "m.yaml:1:1: parameters: the list is empty\n");
  CHECK(errors_of("parameters:\n- { name: a, shape: [x] }\n") ==
        "m.yaml:2:22: shape: a list of whole numbers, as in 'shape: [1000, 512]'\n");
  CHECK(errors_of("parameters: 5\nlayers: [relu]\n") ==
        "m.yaml:2:9: layers: a model has layers or a list of parameters, not both\n");
}

TEST_CASE("a measured layer takes parameters, output shape and times") {
  const auto model =
      read_text(with_layers("- measured: { name: attention, output: [2*classes, 4, 4], parameters: { weight: "
                            "[6, 4] }, forward: 20 us, "
                            "backward: 40 us, backward_per_sample: 1 us, launches_backward: 7 }\n"));
  const Layer& layer = model->layers[1];
  CHECK(layer.output == Shape{6, 4, 4});
  REQUIRE(layer.measured.has_value());
  CHECK(layer.measured->backward == Time::microseconds(40));
  CHECK(layer.measured->backward_per_sample == Time::microseconds(1));
  CHECK(layer.measured->launches_backward == 7);
  CHECK(model->parameters[0].name == "attention.weight");
  CHECK(errors_of(with_layers("- measured: { output: [4], forward: 20, backward: 40 us }\n"))
            .find("m.yaml:5:37: forward: ") == 0);
}

TEST_CASE("mistakes in a model file are all found, each with its place") {
  CHECK(errors_of(with_layers("- conv2D: { out: 4, kernel: 3 }\n- conv2d: { out: 4, kernal: 3 }\n")) ==
        "m.yaml:5:3: there is no layer 'conv2D', did you mean 'conv2d'?\n"
        "m.yaml:6:11: conv2d has no 'kernel', which is required (extent of the window, or [height, width])\n"
        "m.yaml:6:21: unknown key 'kernal' in conv2d: allowed are name, from, when, out, kernel, stride, "
        "padding, "
        "dilation, groups, bias, did you mean 'kernel'?\n");
  CHECK(errors_of(with_layers("- conv2d: { out: 4*k, kernel: 3 }\n- batch_norm: { momentun: 0.1 }\n"))
            .find("m.yaml:5:18: '4*k' is no integer expression: there is no parameter 'k'; known are "
                  "classes\n") == 0);
  CHECK(errors_of(with_layers("- { relu: {}, flatten: {} }\n")) ==
        "m.yaml:5:3: a layer is '- kind' or '- kind: { keys }', with one kind\n");
  CHECK(errors_of(with_layers("- relu: { name: 'a b' }\n")).find("m.yaml:5:17: name: 'a b' is no name") == 0);
  CHECK(errors_of(with_layers("- repeat: { layers: [relu] }\n")) ==
        "m.yaml:5:11: repeat has no 'times', which is required (how often)\n");
  CHECK(errors_of(with_layers("- conv2d: { out: { a: 1 }, kernel: [3, 3, 3] }\n"))
            .find("m.yaml:5:18: out: is a map of keys") == 0);
  CHECK(errors_of(with_layers("- conv2d: { out: 4, kernel: [3, 3, 3] }\n")) ==
        "m.yaml:5:29: kernel is one number, or height and width\n");
  CHECK(errors_of("layers: [relu]\n") ==
        "m.yaml:1:1: model has no 'input', which a model with layers needs\n"
        "m.yaml:1:1: model has no 'classes', which a model with layers needs\n"
        "m.yaml:1:10: the model ends with 'relu'; a model to be trained ends with softmax_cross_entropy\n");
  CHECK(errors_of("title: x\n") == "m.yaml:1:1: model has neither 'layers' nor 'parameters'\n");
}

TEST_CASE("blocks in a file take parameters and are checked where they are used") {
  const std::string blocks =
      "blocks:\n  unit:\n    parameters: [width, stride: 1]\n    layers:\n    - conv2d: { name: c, out: "
      "width, "
      "kernel: 1, stride: stride }\n";
  const auto model =
      read_text(blocks + with_layers("- unit: { width: 2*classes }\n- unit: { width: 2, stride: 2 }\n"));
  CHECK(model->layers[1].name == "unit.c");
  CHECK(model->layers[2].output == Shape{2, 4, 4});
  CHECK(errors_of(blocks + with_layers("- unit: { widht: 3 }\n")) ==
        "m.yaml:10:3: block 'unit' needs 'width'\n"
        "m.yaml:10:18: block 'unit' has no parameter 'widht', did you mean 'width'?\n");
  CHECK(errors_of("blocks: { relu: { layers: [relu] } }\n" + with_layers("")) ==
        "m.yaml:1:11: block 'relu': the name has a meaning of its own\n");
}

TEST_CASE("no file, however mangled, does more than be refused") {
  std::ifstream file(std::string(FORETRAIN_SOURCE_DIR) + "/models/wrn-16-4.yaml");
  std::stringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  REQUIRE(text.size() > 1000);
  RandomStream stream(1);
  const auto below = [&stream](std::size_t n) { return static_cast<std::size_t>(stream.next() % n); };
  static const char* const pieces[] = {"-1",
                                       "99999999999",
                                       "[",
                                       "{}",
                                       "from: input, ",
                                       "repeat",
                                       "null",
                                       "name: x, ",
                                       "- basic: { width: 1 }\n",
                                       "* 3",
                                       "\n",
                                       ": ",
                                       "when: 0, ",
                                       "layers: []",
                                       "0"};
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string mangled = text;
    for (std::size_t change = 0; change <= below(3); ++change) {
      const std::size_t at = below(mangled.size());
      switch (below(3)) {
        case 0:
          mangled.erase(at, 1 + below(12));
          break;
        case 1:
          mangled.insert(at, pieces[below(std::size(pieces))]);
          break;
        default:
          mangled[at] = static_cast<char>(32 + below(95));
      }
    }
    Diagnostics diagnostics;
    const auto root = parse_document(mangled, "m.yaml", diagnostics);
    const auto model = root ? read_model(*root, diagnostics) : nullptr;
    CHECK((model != nullptr) == diagnostics.ok());
    for (const Diagnostic& finding : diagnostics.errors()) CHECK(finding.where.line > 0);
    refused += model == nullptr;
  }
  CHECK(refused > 100);
}

TEST_CASE("an optimizer's keys belong to its kind") {
  const auto model = read_text("parameters: 5\noptimizer: { kind: adamw, beta2: 0.98 }\n");
  CHECK(model->optimizer.kind == OptimizerKind::adamw);
  CHECK(model->optimizer.learning_rate == 1e-3);
  CHECK(model->optimizer.beta2 == 0.98);
  CHECK(errors_of("parameters: 5\noptimizer: { kind: adam, momentum: 0.9 }\n") ==
        "m.yaml:2:36: momentum: adam has none\n");
  CHECK(errors_of("parameters: 5\noptimizer: { kind: sgd, nesterov: true }\n") ==
        "m.yaml:2:35: nesterov: it needs a momentum above 0\n");
}

#include "sim/import/onnx.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/base/wire.hpp"
#include "sim/input/model_reader.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/imports.hpp"

using namespace foretrain;
using test::Finished;
using test::holds;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

// A model as exporters write it: nodes, weights' shapes without data, one image as the input.
class OnnxText {
 public:
  OnnxText& node(const char* kind, const Names& inputs, const char* output,
                 const std::vector<std::pair<const char*, Numbers>>& attributes = {}) {
    WireWriter one;
    for (const std::string& each : inputs) one.bytes(1, each);
    one.bytes(2, output);
    one.bytes(3, std::string("/") + kind + "_" + output);
    one.bytes(4, kind);
    for (const auto& [name, values] : attributes) {
      WireWriter attribute;
      attribute.bytes(1, name);
      if (values.size() == 1) attribute.varint(3, static_cast<std::uint64_t>(values[0]));
      if (values.size() > 1)
        for (const std::int64_t value : values) attribute.varint(8, static_cast<std::uint64_t>(value));
      one.message(5, attribute);
    }
    graph_.message(1, one);
    return *this;
  }
  OnnxText& weight(const char* name, const Numbers& shape, int type = 1) {
    WireWriter one;
    for (const std::int64_t size : shape) one.varint(1, static_cast<std::uint64_t>(size));
    one.varint(2, static_cast<std::uint64_t>(type));
    one.bytes(8, name);
    graph_.message(5, one);
    return *this;
  }
  std::string text() {
    WireWriter shape, tensor, type, value, model;
    for (const std::int64_t size : {0, 3, 32, 32}) {
      WireWriter dimension;
      if (size > 0) dimension.varint(1, static_cast<std::uint64_t>(size));
      if (size == 0) dimension.bytes(2, "batch");
      shape.message(1, dimension);
    }
    tensor.varint(1, 1);
    tensor.message(2, shape);
    type.message(1, tensor);
    value.bytes(1, "image");
    value.message(2, type);
    graph_.message(11, value);
    model.varint(1, 8);
    model.message(7, graph_);
    return model.text();
  }

 private:
  WireWriter graph_;
};

std::string residual_network() {
  return OnnxText()
      .node("Conv", {"image", "stem.weight"}, "a",
            {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}, {"strides", {2, 2}}})
      .node("BatchNormalization", {"a", "bn.weight", "bn.bias", "bn.mean", "bn.var"}, "b")
      .node("Relu", {"b"}, "c")
      .node("Conv", {"c", "body.weight", "body.bias"}, "d", {{"pads", {1, 1, 1, 1}}, {"group", {2}}})
      .node("Add", {"d", "c"}, "e")
      .node("MaxPool", {"e"}, "f", {{"kernel_shape", {2, 2}}, {"strides", {2, 2}}})
      .node("GlobalAveragePool", {"f"}, "g")
      .node("Flatten", {"g"}, "h")
      .node("Gemm", {"h", "fc.weight", "fc.bias"}, "i", {{"transB", {1}}})
      .node("Softmax", {"i"}, "j")
      .weight("stem.weight", {8, 3, 3, 3})
      .weight("bn.weight", {8})
      .weight("bn.bias", {8})
      .weight("bn.mean", {8})
      .weight("bn.var", {8})
      .weight("body.weight", {8, 4, 3, 3})
      .weight("body.bias", {8})
      .weight("fc.weight", {10, 8})
      .weight("fc.bias", {10})
      .text();
}

Imported imported(const std::string& bytes) {
  ImportOptions options;
  options.file = "net.onnx";
  options.target = "net.yaml";
  return import_onnx(bytes, options);
}

}  // namespace

TEST_CASE("a network of ONNX becomes our layers, with PyTorch's names") {
  const Imported made = imported(residual_network());
  CAPTURE(made.content);
  Diagnostics findings;
  const auto root = parse_document(made.content, "net.yaml", findings);
  REQUIRE(root);
  const auto model = read_model(*root, findings);
  findings.throw_errors();
  REQUIRE(model);
  CHECK(model->parameter_count() == 8 * 3 * 9 + 16 + 8 * 4 * 9 + 8 + 80 + 10);
  CHECK(model->classes == 10);
  CHECK(model->input == Shape{3, 32, 32});
  CHECK(holds(
      made.content,
      "conv2d: { name: \"stem\", from: \"input\", out: 8, kernel: 3, stride: 2, padding: 1, bias: false }"));
  CHECK(holds(made.content, "groups: 2, bias: true"));
  CHECK(holds(made.content, "from: [\"body\""));
  CHECK(holds(made.content, "linear: { name: \"fc\""));
  CHECK(model->layers.back().kind == LayerKind::softmax_cross_entropy);
}

TEST_CASE("what we have no layer for is listed, and the parameters are left") {
  const std::string bytes = OnnxText()
                                .node("Conv", {"image", "w"}, "a", {{"pads", {0, 0, 1, 1}}})
                                .node("Einsum", {"a"}, "b")
                                .node("Einsum", {"b"}, "c")
                                .weight("w", {4, 3, 3, 3})
                                .weight("shape", {2}, 7)
                                .text();
  const Imported made = imported(bytes);
  CHECK(holds(made.content, "parameters:\n  - { name: \"w\", shape: [4, 3, 3, 3] }\n"));
  CHECK(!holds(made.content, "shape\", shape"));
  CHECK(holds(made.notes.back(), "Conv with unequal padding (1 times)"));
  CHECK(holds(made.notes.back(), "Einsum (2 times)"));
}

TEST_CASE("what is no model is refused") {
  for (const std::string& bytes : {std::string(), std::string("hello"), residual_network().substr(0, 100),
                                   std::string("\x08\x08"), std::string(64, '\xFF')}) {
    CAPTURE(bytes.size());
    CHECK_THROWS_AS(imported(bytes), Error);
  }
}

TEST_CASE("a model of ONNX is simulated beside a step-time profile") {
  const TemporaryFolder folder;
  const std::string file = folder.write("net.onnx", residual_network());
  const Finished made = run_foretrain({"import", "onnx", file, "-o", folder.path("net.yaml")});
  CAPTURE(made.err);
  CHECK(made.status == 0);
  CHECK(run_foretrain({"check", folder.path("net.yaml")}).status == 0);
  const std::string scenario =
      folder.write("s.yaml",
                   "model: net.yaml\nprofile: { steps: [[64, 10 ms]] }\nbatch: { per_worker: 64 }\n"
                   "cluster: { topology: nvlink-node, gpus_per_node: 2 }\n");
  CHECK(run_foretrain({"simulate", scenario}).status == 0);
}

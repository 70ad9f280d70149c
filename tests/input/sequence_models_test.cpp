// The models of sequences that ship, and what their files may say.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/input/document.hpp"
#include "sim/input/model_reader.hpp"
#include "sim/input/scenario_reader.hpp"
#include "sim/input/sequence_lengths.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

std::shared_ptr<const Model> shipped(const std::string& name,
                                     std::optional<std::int64_t> sequence = std::nullopt) {
  Diagnostics diagnostics;
  const auto root =
      read_document(std::string(FORETRAIN_SOURCE_DIR) + "/models/" + name + ".yaml", diagnostics);
  std::shared_ptr<const Model> model = root ? read_model(*root, diagnostics, sequence) : nullptr;
  for (const Diagnostic& finding : diagnostics.errors()) MESSAGE(finding.text());
  REQUIRE(model != nullptr);
  return model;
}

std::string errors_of(const std::string& layers, const std::string& head = {}) {
  Diagnostics diagnostics;
  const std::string text = head.empty() ? "input: { tokens: 10 }\nsequence: 4\nlayers:\n" : head;
  const auto root = parse_document("name: m\n" + text + layers, "m.yaml", diagnostics);
  REQUIRE(root);
  CHECK(read_model(*root, diagnostics) == nullptr);
  std::string all;
  for (const Diagnostic& finding : diagnostics.errors()) all += finding.text() + '\n';
  return all;
}

const Layer& layer_of(const Model& model, const std::string& name) {
  const auto found = std::find_if(model.layers.begin(), model.layers.end(),
                                  [&](const Layer& layer) { return layer.name == name; });
  REQUIRE(found != model.layers.end());
  return *found;
}

}  // namespace

// Worked out by hand from the papers; those of lstm-seq2seq and transformer-base are the ones of issue 6's
// cases.
TEST_CASE("shipped models of sequences have the published numbers of parameters") {
  const struct {
    const char* name;
    std::int64_t parameters, sequence;
    const char* unit;
  } expected[] = {{"transformer-base", 60'880'896, 64, "tokens"},
                  {"transformer-big", 209'842'176, 64, "tokens"},
                  {"gpt2-small", 124'439'808, 1024, "tokens"},
                  {"gpt2-medium", 354'823'168, 1024, "tokens"},
                  {"gpt2-large", 774'030'080, 1024, "tokens"},
                  {"gpt2-xl", 1'557'611'200, 1024, "tokens"},
                  {"bert-large", 335'141'888, 512, "tokens"},
                  {"llama-1b", 1'235'814'400, 2048, "tokens"},
                  {"llama-7b", 6'738'415'616, 2048, "tokens"},
                  {"lstm-seq2seq", 77'616'432, 100, "words"},
                  {"lstm-seq2seq-unrolled", 77'616'432, 100, "words"},
                  {"gnmt", 161'717'824, 50, "words"},
                  {"char-rnn", 573'025, 200, "characters"}};
  for (const auto& each : expected) {
    CAPTURE(each.name);
    const auto model = shipped(each.name);
    CHECK(model->parameter_count() == each.parameters);
    CHECK(model->sequence == each.sequence);
    CHECK(model->targets() == each.sequence);
    CHECK(model->unit == each.unit);
    CHECK(model->title != each.name);
  }
}

TEST_CASE("another length of sequence changes shapes and operations, not parameters") {
  const auto model = shipped("gpt2-small"), shorter = shipped("gpt2-small", 256);
  CHECK(shorter->parameter_count() == model->parameter_count());
  CHECK(layer_of(*shorter, "h.0.attn.core").output == Shape{256, 768});
  CHECK(operator_key(*shorter, layer_of(*shorter, "h.11.attn.core")) ==
        "attention in=256x2304 out=256x768 heads=12 kv=12 dim=64 causal");
  CHECK(operator_key(*model, layer_of(*model, "lm_head")) == "linear in=1024x768 out=1024x50257 tied");
  // Products with weights of 2 x 123,532,032 a token (all but the positions and what is no matrix), and of
  // causal attention 4 x 64 x 12 x 12 x (1024 x 1025 / 2).
  const double weights = 12.0 * (768 * 2304 + 768 * 768 + 2 * 768 * 3072) + 50257.0 * 768;
  const double attention = 4.0 * 768 * 12 * (1024.0 * 1025 / 2);
  CHECK(model->forward_flops().count() == approx(2 * 1024 * weights + attention));
  CHECK(model->units_per_sample() == 1024);
  CHECK(shipped("lstm-seq2seq")->units_per_sample() == 200);
}

TEST_CASE(
    "a shared table is registered once, first, and owned by the layer that is last in the backward pass") {
  const auto model = shipped("transformer-base");
  CHECK(model->parameters[0].name == "embedding.weight");
  CHECK(model->parameters[0].layer == 1);
  CHECK(layer_of(*model, "target_embedding").tied == 1);
  CHECK(layer_of(*model, "output").parameters == std::vector<int>{0});
  const auto count = std::count_if(model->parameters.begin(), model->parameters.end(),
                                   [](const Parameter& p) { return p.elements == 32768 * 512; });
  CHECK(count == 1);
}

TEST_CASE("a recurrence registers its parameters as PyTorch does") {
  const auto model = shipped("lstm-seq2seq");
  const Layer& encoder = layer_of(*model, "encoder");
  CHECK(encoder.output == Shape{2, 4, 512});
  const char* names[] = {
      "encoder.weight_ih_l0",       "encoder.weight_hh_l0",         "encoder.bias_ih_l0",
      "encoder.bias_hh_l0",         "encoder.weight_ih_l0_reverse", "encoder.weight_hh_l0_reverse",
      "encoder.bias_ih_l0_reverse", "encoder.bias_hh_l0_reverse",   "encoder.weight_ih_l1"};
  for (std::size_t i = 0; i < std::size(names); ++i)
    CHECK(model->parameters[static_cast<std::size_t>(encoder.parameters[i])].name == names[i]);
  CHECK(layer_of(*shipped("lstm-seq2seq-unrolled"), "decoder").recurrence.unrolled);
}

TEST_CASE("mistakes in a model of sequences are named") {
  const std::string loss = "- linear: { out: 10 }\n- softmax_cross_entropy\n";
  CHECK(errors_of("- linear: { out: 4 }\n" + loss).find("put embedding before it") != std::string::npos);
  CHECK(errors_of("- embedding: { out: 8, positions: 3 }\n" + loss)
            .find("3 positions, too few for a sequence of 4") != std::string::npos);
  CHECK(errors_of("- embedding: { out: 8 }\n- attention: { heads: 3 }\n" + loss).find("do not fit") !=
        std::string::npos);
  CHECK(errors_of("- embedding: { out: 9 }\n- attention: { heads: 3, kv_heads: 2 }\n" + loss)
            .find("must divide heads") != std::string::npos);
  CHECK(errors_of("- embedding: { out: 8, name: e }\n- lstm: { hidden: 9 }\n- linear: { tied: e }\n"
                  "- softmax_cross_entropy\n")
            .find("needs a weight of 10x9, but that of 'e' is 10x8") != std::string::npos);
  CHECK(errors_of("- embedding: { out: 8, stream: 1 }\n" + loss).find("has 1 streams") != std::string::npos);
  CHECK(errors_of("- embedding: { out: 8 }\n" + loss, "input: { tokens: 10 }\nlayers:\n")
            .find("has no 'sequence'") != std::string::npos);
  CHECK(errors_of(loss, "input: { tokens: 10, height: 3 }\nsequence: 4\nlayers:\n")
            .find("tokens, which have none") != std::string::npos);
  CHECK(errors_of(loss, "base: nothing\nlayers:\n").find("nothing.yaml") != std::string::npos);
  CHECK(errors_of(loss, "base: ../x\nlayers:\n").find("without .yaml") != std::string::npos);
}

TEST_CASE("a scenario says how long sequences are, or how unequal") {
  const Catalog catalog({std::string(FORETRAIN_SOURCE_DIR)});
  const test::TemporaryFolder folder;
  folder.write("lengths.txt", "length,samples\n16,900\n48 100\n");
  const auto read = [&](const std::string& sequence, std::string* findings = nullptr) {
    Diagnostics diagnostics;
    const auto scenario = parse_scenario(
        "model: gpt2-small\nprofile: { steps: [[4, 10 ms], [8, 20 ms]] }\nbatch: { per_worker: 4 }\n" +
            sequence + "cluster: { topology: one-node, workers: 2 }\n",
        folder.path("s.yaml"), catalog, {}, diagnostics);
    for (const Diagnostic& finding : diagnostics.errors())
      if (findings) *findings += finding.text() + '\n';
    return scenario;
  };
  CHECK(read("")->model->sequence == 1024);
  CHECK(read("sequence: 128\n")->model->sequence == 128);
  CHECK_FALSE(read("sequence: 128\n")->lengths);
  const auto map = read("sequence: { lengths: { 64: 1, 16: 3 }, batching: bucketed, buckets: 4 }\n");
  REQUIRE(map);
  REQUIRE(map->lengths);
  CHECK(map->model->sequence == 64);
  CHECK(map->lengths->mean() == 28);
  CHECK(map->lengths->batching == LengthBatching::bucketed);
  CHECK(map->lengths->model_at(40)->sequence == 40);
  const auto file = read("sequence: { lengths: lengths.txt }\n");
  REQUIRE(file);
  CHECK(file->model->sequence == 48);
  CHECK(file->lengths->mean() == approx(19.2));
  std::string findings;
  CHECK_FALSE(read("sequence: { lengths: { 0: 1 } }\n", &findings));
  CHECK(findings.find("'0' is no length of a sequence") != std::string::npos);
  CHECK_FALSE(read("sequence: { lengths: none.txt }\n", &findings));
  CHECK_FALSE(read("sequence: { lengths: { 4: 1 }, buckets: 3 }\n", &findings));
  CHECK(findings.find("belongs to batching 'bucketed'") != std::string::npos);
  CHECK_FALSE(read("sequence: 2048\n", &findings));
  CHECK(findings.find("1024 positions, too few for a sequence of 2048") != std::string::npos);
}

#include "tests/support/sequence_cases.hpp"

#include <functional>

#include "sim/training/model_builder.hpp"
#include "tests/support/models.hpp"

namespace foretrain::test {
namespace {

constexpr int words = 48, length = 24, width = 32;

// An embedding, what `body` makes of its rows, and a loss over the words.
Model built(const char* name, const std::function<int(ModelBuilder&, int)>& body, EmbeddingTable table = {}) {
  ModelBuilder b(name, {length}, words);
  b.take_tokens(words, length);
  const int x = body(b, b.embedding("embedding", b.input(), width, table));
  b.softmax_cross_entropy("loss", b.linear("output", x, words, true));
  return b.finish();
}

}  // namespace

std::vector<Model> sequence_cases() {
  std::vector<Model> all;
  const auto add = [&](const char* name, const std::function<int(ModelBuilder&, int)>& body,
                       EmbeddingTable table = {}) { all.push_back(built(name, body, table)); };
  add("embedding", [](ModelBuilder&, int x) { return x; });
  add("embedding-positions", [](ModelBuilder&, int x) { return x; },
      {.positions = length + 3, .segments = 2, .scaled = true});
  add("embedding-sinusoids", [](ModelBuilder&, int x) { return x; }, {.sinusoidal = true});
  add("linear-rows", [](ModelBuilder& b, int x) { return b.linear("a", x, 40, true); });
  add("layer-norm", [](ModelBuilder& b, int x) { return b.layer_norm("n", b.linear("a", x, 40, true)); });
  add("rms-norm", [](ModelBuilder& b, int x) { return b.rms_norm("n", b.linear("a", x, 37, false)); });
  add("norm-residual", [](ModelBuilder& b, int x) {
    return b.add("s", {x, b.linear("a", b.layer_norm("n", x), width, true)});
  });
  add("gelu", [](ModelBuilder& b, int x) { return b.gelu("g", b.linear("a", x, 40, true), false); });
  add("gelu-tanh", [](ModelBuilder& b, int x) { return b.gelu("g", b.linear("a", x, 40, true), true); });
  add("gated", [](ModelBuilder& b, int x) {
    return b.multiply("m", {b.silu("s", b.linear("a", x, 40, false)), b.linear("b", x, 40, false)});
  });
  add("concat", [](ModelBuilder& b, int x) {
    return b.concat("c", {b.linear("a", x, 24, false), x, b.linear("b", x, 8, true)});
  });
  for (const bool causal : {false, true}) {
    add(causal ? "attention-causal" : "attention", [=](ModelBuilder& b, int x) {
      const AttentionHeads heads{.heads = 2, .kv_heads = 2, .causal = causal};
      return b.attention("core", {b.linear("qkv", x, 3 * width, true)}, heads);
    });
  }
  add("attention-grouped-rotary", [](ModelBuilder& b, int x) {
    const AttentionHeads heads{.heads = 4, .kv_heads = 2, .causal = true, .rotary_base = 100};
    return b.attention("core", {b.linear("q", x, 64, true), b.linear("kv", x, 64, false)}, heads);
  });
  add("attention-three", [](ModelBuilder& b, int x) {
    const AttentionHeads heads{.heads = 2, .kv_heads = 1};
    return b.attention(
        "core", {b.linear("q", x, 48, true), b.linear("k", x, 24, false), b.linear("v", x, 24, true)}, heads);
  });
  for (const LayerKind kind : {LayerKind::rnn, LayerKind::lstm, LayerKind::gru}) {
    const std::string name = name_of(kind);
    add((name + "-one").c_str(),
        [=](ModelBuilder& b, int x) { return b.recurrence(kind, "core", {x}, {.hidden = 24}); });
    add((name + "-stack").c_str(), [=](ModelBuilder& b, int x) {
      return b.recurrence(kind, "core", {x}, {.hidden = 16, .layers = 2, .bidirectional = true});
    });
    add((name + "-unrolled").c_str(), [=](ModelBuilder& b, int x) {
      return b.recurrence(kind, "core", {x},
                          {.hidden = 16, .layers = 2, .bidirectional = true, .unrolled = true});
    });
    for (const bool unrolled : {false, true}) {
      all.push_back(tiny_seq2seq(kind, unrolled));
      all.back().name += "-" + name + (unrolled ? "-unrolled" : "");
    }
  }
  all.push_back(tiny_transformer());
  all.push_back(tiny_llama());
  return all;
}

}  // namespace foretrain::test

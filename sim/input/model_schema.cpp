#include "sim/input/model_schema.hpp"

#include <utility>

namespace foretrain {
namespace {

// Integer expressions are words to the tables: "4*width".
constexpr Type expression = Type::text;
constexpr Type one_or_two = Type::text | Type::list;

KeySpec bounded(KeySpec made, double at_least, double at_most = KeySpec::unlimited) {
  made.at_least = at_least;
  made.at_most = at_most;
  return made;
}

KeySpec positive(KeySpec made) {
  made.above = 0;
  return made;
}

Schema layer(std::string name, std::string description, std::vector<KeySpec> own) {
  Schema made;
  made.name = std::move(name);
  made.description = std::move(description);
  made.keys.push_back(
      key("name", Type::text, "name within its level; else a number in a sequence, the type elsewhere"));
  const bool joins = made.name == "add" || made.name == "multiply" || made.name == "concat";
  const bool reads_several =
      made.name == "attention" || made.name == "rnn" || made.name == "lstm" || made.name == "gru";
  made.keys.push_back(key(
      "from", joins || reads_several ? Type::text | Type::list : Type::text,
      joins ? "the layers joined; a single one is joined with the layer before"
      : made.name == "attention"
          ? "the layer that packs q, k and v; or that of q and that of k and v; or the three"
      : reads_several ? "the sequence; and a second layer that gives the first state, where it is not zero"
                      : "the layer that is read; else the one before; 'input' is what enters the block"));
  made.keys.push_back(key("when", expression, "an integer expression; 0 leaves the layer out", "1"));
  for (KeySpec& each : own) made.keys.push_back(std::move(each));
  return made;
}

std::vector<KeySpec> window(bool is_pool) {
  std::vector<KeySpec> keys;
  keys.push_back(
      required(key("kernel", one_or_two, "extent of the window, or [height, width]", {}, "kernel: 3")));
  keys.push_back(
      key("stride", one_or_two, "step of the window, or [height, width]", is_pool ? "kernel" : "1"));
  keys.push_back(key("padding", one_or_two, "pixels added at each edge, or [height, width]", "0"));
  return keys;
}

std::vector<KeySpec> recurrence() {
  KeySpec gives = key("gives", Type::text,
                      "what the layer puts out: the sequence, or the last state of each layer's forward "
                      "direction, with which a decoder begins",
                      "sequence");
  gives.allowed = {"sequence", "state"};
  return {required(key("hidden", expression, "features of the state", {}, "hidden: 512")),
          key("layers", expression, "layers on top of each other", "1"),
          key("bidirectional", Type::boolean, "a second direction, whose output stands beside the first's",
              "false"),
          key("unrolled", Type::boolean, "a loop of small kernels over time, not one fused call", "false"),
          std::move(gives),
          bounded(key("dropout", Type::number, "probability of a zero between layers", "0"), 0, 0.99)};
}

void add_sequence_layers(std::vector<Schema>& all, const KeySpec& out) {
  const KeySpec tied = key("tied", Type::text, "the embedding or linear layer whose weight is used too");
  all.push_back(layer(
      "embedding", "a row of a table for each token of the input",
      {key("out", expression, "features; as the tied weight where there is one", {}, "out: 512"),
       key("vocabulary", expression, "rows of the table", "the input's tokens"),
       key("positions", expression, "rows of a learned table of positions, added", "0"),
       key("segments", expression, "rows of a learned table of segments, of which the first is added", "0"),
       key("sinusoidal", Type::boolean, "sines and cosines of the position are added", "false"),
       key("scaled", Type::boolean, "the token's row times the root of the features", "false"),
       key("stream", expression, "which of the input's streams it reads, from 0", "0"), tied}));
  all.push_back(layer("layer_norm",
                      "normalization of each row to mean 0 and variance 1, with scale and shift",
                      {positive(key("epsilon", Type::number, "added to the variance", "1e-5")),
                       key("bias", Type::boolean, "whether there is a shift", "true")}));
  all.push_back(layer("rms_norm", "each row over the root of its mean square, with a scale",
                      {positive(key("epsilon", Type::number, "added to the mean square", "1e-6"))}));
  all.push_back(layer("gelu", "x times the normal distribution function of x",
                      {key("approximate", Type::boolean, "by tanh, as GPT-2 does", "false")}));
  all.push_back(layer("silu", "x times the logistic function of x", {}));
  all.push_back(layer(
      "dropout", "zeros at random while training; the rest grows by 1 / (1 - probability)",
      {required(bounded(key("probability", Type::number, "of a zero", {}, "probability: 0.1"), 0, 0.99))}));
  all.push_back(layer(
      "attention", "softmax(q k / sqrt(head_dim)) v for each head; the projections are layers of their own",
      {required(key("heads", expression, "heads of the queries", {}, "heads: 8")),
       key("kv_heads", expression, "heads of keys and values; fewer are shared by neighbouring heads",
           "heads"),
       key("head_dim", expression, "features of a head", "the input's features divided among the heads"),
       key("causal", Type::boolean, "a token sees itself and those before it", "false"),
       positive(
           key("rotary", Type::number, "base of rotary positions, turned into q and k", {}, "rotary: 10000")),
       bounded(key("dropout", Type::number, "probability of a zero in the softmax", "0"), 0, 0.99)}));
  all.push_back(layer("multiply", "product of branches of equal shape, element by element", {}));
  all.push_back(layer("concat", "branches side by side along the features", {}));
  all.push_back(layer("rnn", "recurrence with tanh", recurrence()));
  all.push_back(layer("lstm", "long short-term memory", recurrence()));
  all.push_back(layer("gru", "gated recurrent unit", recurrence()));
  KeySpec linear_out = out;
  linear_out.required = false;
  linear_out.description += "; as the tied weight where there is one";
  all.push_back(layer("linear", "matrix product with a weight of out x in, over the last dimension",
                      {linear_out, key("bias", Type::boolean, "whether a bias is added", "true"), tied}));
}

std::vector<Schema> make_layers() {
  const KeySpec out = required(key("out", expression, "output channels or features", {}, "out: 64"));
  const KeySpec bias = key("bias", Type::boolean, "whether a bias is added", "true");
  const KeySpec dilation =
      key("dilation", one_or_two, "distance of the window's elements, or [height, width]", "1");

  std::vector<KeySpec> conv = {out};
  for (KeySpec& each : window(false)) conv.push_back(std::move(each));
  conv.push_back(dilation);
  conv.push_back(key("groups", expression, "groups of channels that do not mix", "1"));
  conv.push_back(bias);
  std::vector<KeySpec> max_pool = window(true);
  max_pool.push_back(dilation);
  std::vector<KeySpec> avg_pool = window(true);
  avg_pool.push_back(key("count_padding", Type::boolean, "whether padding counts in the mean", "true"));

  std::vector<Schema> all;
  all.push_back(layer("conv2d", "two-dimensional convolution", std::move(conv)));
  all.push_back(
      layer("batch_norm", "normalization over the batch, with scale, shift and running statistics",
            {positive(key("epsilon", Type::number, "added to the variance", "1e-5")),
             bounded(key("momentum", Type::number, "weight of the batch in the running statistics", "0.1"), 0,
                     1)}));
  all.push_back(layer("relu", "max(0, x)", {}));
  all.push_back(layer("max_pool", "largest value in a window", std::move(max_pool)));
  all.push_back(layer("avg_pool", "mean over a window", std::move(avg_pool)));
  all.push_back(layer("global_pool", "mean of each channel", {}));
  add_sequence_layers(all, out);
  all.push_back(layer("add", "sum of branches of equal shape", {}));
  all.push_back(layer("flatten", "channels x height x width to features", {}));
  all.push_back(layer("softmax_cross_entropy", "the loss: mean over the batch; ends a model", {}));
  all.push_back(layer(
      "measured", "an operator that is not modelled: its output, parameters and times are given",
      {required(key("output", Type::list, "output shape a sample", {}, "output: [512, 14, 14]")),
       key("parameters", Type::map, "names and shapes", {}, "parameters: { weight: [64, 64], bias: [64] }"),
       required(bounded(key("forward", Type::time, "forward pass, fixed part", {}, "forward: 20 us"), 0)),
       bounded(key("forward_per_sample", Type::time, "forward pass, added by each sample", "0 us"), 0),
       required(bounded(key("backward", Type::time, "backward pass, fixed part", {}, "backward: 40 us"), 0)),
       bounded(key("backward_per_sample", Type::time, "backward pass, added by each sample", "0 us"), 0),
       bounded(key("launches_forward", Type::integer, "kernel launches of the forward pass", "1"), 0, 1e6),
       bounded(key("launches_backward", Type::integer, "kernel launches of the backward pass", "1"), 0,
               1e6)}));
  const KeySpec layers = required(key("layers", Type::list, "the layers within, in order"));
  all.push_back(layer("sequence", "a level of names whose layers are numbered, as PyTorch does", {layers}));
  all.push_back(
      layer("repeat", "its layers several times over; with a name each turn is a level of names",
            {required(key("times", expression, "how often", {}, "times: 3")),
             key("index", Type::text, "name of the turn's number, from 0, in expressions"), layers}));
  all.push_back(layer("residual", "the sum of a body and a shortcut that read the same input",
                      {required(key("body", Type::list, "layers of the body")),
                       key("shortcut", Type::list, "layers of the shortcut; none: the input itself")}));
  return all;
}

Schema make_model() {
  Schema made;
  made.name = "model";
  made.description = "layers with parameters, or a mere list of parameters beside a step-time profile";
  made.keys = {
      key("base", Type::text, "another model's file beside this one; keys and constants here replace its"),
      key("name", Type::text, "the model's name in profiles", "the file's name without .yaml"),
      key("title", Type::text, "a line for people"),
      key("unit", Type::text, "what a sample is called in throughput", "images"),
      key("input", Type::map, "shape of a sample", {}, "input: { channels: 3, height: 224, width: 224 }"),
      bounded(key("sequence", Type::integer, "tokens of a sample, where the scenario names no other length"),
              1, 1e7),
      bounded(key("classes", Type::integer, "number of classes; may be used in expressions"), 1, 1e9),
      key("optimizer", Type::map, "default where the scenario names none"),
      key("constants", Type::map, "names for integer expressions", {}, "constants: { widen: 4 }"),
      key("blocks", Type::map, "named groups of layers with parameters; used like a kind of layer"),
      key("layers", Type::list, "the layers in order, each '- kind: { keys }' or '- kind'"),
      key("parameters", Type::integer | Type::list,
          "in place of layers: their number, or a list of names and shapes", {}, "parameters: 60880896")};
  for (KeySpec& each : made.keys) {
    if (each.name == "input") each.keys = &model_input_schema();
    if (each.name == "optimizer") each.keys = &optimizer_schema();
    if (each.name == "parameters") {
      each.items = &parameter_item_schema();
      each.at_least = 1;
    }
  }
  return made;
}

}  // namespace

const Schema& model_input_schema() {
  static const Schema schema = {
      "input",
      "an image, or tokens",
      {bounded(key("channels", Type::integer, "channels of the image"), 1, 1e6),
       bounded(key("height", Type::integer, "rows of pixels"), 1, 1e6),
       bounded(key("width", Type::integer, "columns of pixels"), 1, 1e6),
       bounded(key("tokens", Type::integer, "size of the vocabulary, in place of an image"), 1, 1e9),
       bounded(key("streams", Type::integer, "sequences of tokens a sample: 2 for source and target", "1"), 1,
               16)},
      {}};
  return schema;
}

const Schema& optimizer_schema() {
  static const Schema schema = [] {
    Schema made;
    made.name = "optimizer";
    made.description = "the update of parameters after each step";
    KeySpec kind = key("kind", Type::text, "update rule", "sgd");
    kind.allowed = {"sgd", "adam", "adamw"};
    made.keys = {
        std::move(kind),
        positive(key("learning_rate", Type::number, "factor of the gradient", "0.1")),
        bounded(key("momentum", Type::number, "sgd: part of the last update that is kept", "0"), 0, 1),
        bounded(key("weight_decay", Type::number, "factor of the parameter added to its gradient", "0"), 0),
        key("nesterov", Type::boolean, "sgd: look ahead by the momentum", "false"),
        bounded(key("beta1", Type::number, "adam: decay of the first moment", "0.9"), 0, 1),
        bounded(key("beta2", Type::number, "adam: decay of the second moment", "0.999"), 0, 1),
        positive(key("epsilon", Type::number, "adam: added to the root of the second moment", "1e-8")),
        positive(key("clip_norm", Type::number,
                     "largest norm of all gradients together; larger ones are scaled down to it"))};
    return made;
  }();
  return schema;
}

const Schema& block_schema() {
  static const Schema schema = {
      "block",
      "a group of layers with parameters",
      {key("parameters", Type::list, "names, or 'name: default'", {}, "parameters: [width, stride: 1]"),
       required(key("layers", Type::list, "the layers within, in order"))},
      {}};
  return schema;
}

const Schema& parameter_item_schema() {
  static const Schema schema = {"parameter",
                                "a tensor that is trained",
                                {required(key("name", Type::text, "unique name", {}, "name: fc.weight")),
                                 required(key("shape", Type::list, "extents", {}, "shape: [1000, 512]"))},
                                {}};
  return schema;
}

const Schema& model_schema() {
  static const Schema schema = make_model();
  return schema;
}

const std::vector<const Schema*>& layer_schemas() {
  static const std::vector<Schema> owned = make_layers();
  static const std::vector<const Schema*> all = [] {
    std::vector<const Schema*> pointers;
    for (const Schema& schema : owned) pointers.push_back(&schema);
    return pointers;
  }();
  return all;
}

const Schema* find_layer_schema(std::string_view type) {
  for (const Schema* schema : layer_schemas())
    if (schema->name == type) return schema;
  return nullptr;
}

}  // namespace foretrain

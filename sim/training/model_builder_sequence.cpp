// Layers of sequences: rows of features that a table, a normalization, an attention or a recurrence makes.
#include <utility>

#include "sim/training/model_builder.hpp"

namespace foretrain {
namespace {

std::string subject_of(const Layer& layer) {
  return std::string(name_of(layer.kind)) + " '" + layer.name + "'";
}

double real(std::int64_t count) {
  return static_cast<double>(count);
}

}  // namespace

void ModelBuilder::take_tokens(std::int64_t vocabulary, std::int64_t sequence) {
  model_.tokens = vocabulary;
  model_.sequence = sequence;
}

// Features, or a sequence of them.
bool ModelBuilder::rows(const Layer& layer, int from, const SourceLocation& where) {
  const Shape& in = output(from);
  if (from == 0 && model_.tokens > 0) {
    report(where, subject_of(layer) + " needs features, but the input is of tokens; put embedding before it");
    return false;
  }
  if (in.size() == 1 || in.size() == 2) return true;
  report(where,
         subject_of(layer) + " needs features, but its input is " + text_of(in) + "; put flatten before it");
  return false;
}

// The weight of another layer as this one's first parameter; -1 where it does not fit.
int ModelBuilder::tied_weight(Layer& layer, int owner, const Shape& shape, const SourceLocation& where) {
  const Layer& other = model_.layers.at(static_cast<std::size_t>(owner));
  const bool fits = other.kind == LayerKind::embedding || other.kind == LayerKind::linear;
  if (!fits || other.parameters.empty()) {
    report(where, subject_of(layer) +
                      ": only the weight of an embedding or a linear can be tied, not that of '" +
                      other.name + "'");
    return -1;
  }
  const Parameter& weight = model_.parameters[static_cast<std::size_t>(other.parameters[0])];
  if (weight.shape != shape) {
    report(where, subject_of(layer) + " needs a weight of " + text_of(shape) + ", but that of '" +
                      other.name + "' is " + text_of(weight.shape));
    return -1;
  }
  layer.tied = weight.layer;
  layer.parameters.push_back(other.parameters[0]);
  return other.parameters[0];
}

int ModelBuilder::embedding(const std::string& name, int from, std::int64_t out, EmbeddingTable table,
                            const SourceLocation& where, int tied) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::embedding;
  layer.inputs = {from};
  if (!readable(from, layer, where)) return push(std::move(layer), where);
  const Shape in = output(from);
  const std::int64_t streams = in.size() == 2 ? in[0] : 1;
  if (from != 0 || model_.tokens < 1) {
    report(where,
           subject_of(layer) + " reads tokens, which are the input of a model alone: 'input: { tokens: N }'");
    return push(std::move(layer), where);
  }
  if (out < 1 && tied >= 0) {
    const Layer& owner = model_.layers.at(static_cast<std::size_t>(tied));
    if (!owner.parameters.empty())
      out = model_.parameters[static_cast<std::size_t>(owner.parameters[0])].shape.back();
  }
  if (out < 1 || table.stream < 0 || table.stream >= streams) {
    report(where, out < 1 ? subject_of(layer) + " needs at least one feature"
                          : subject_of(layer) + ": the input has " + std::to_string(streams) +
                                " streams, numbered from 0; there is no " + std::to_string(table.stream));
    return push(std::move(layer), where);
  }
  if (table.vocabulary < 1) table.vocabulary = model_.tokens;
  const std::int64_t length = in.back();
  if (table.positions > 0 && table.positions < length) {
    report(where, subject_of(layer) + " has " + std::to_string(table.positions) +
                      " positions, too few for a sequence of " + std::to_string(length));
    return push(std::move(layer), where);
  }
  layer.embedding = table;
  if (tied >= 0) {
    if (tied_weight(layer, tied, {table.vocabulary, out}, where) < 0) return push(std::move(layer), where);
  } else {
    register_parameter(layer, "weight", {table.vocabulary, out}, where);
  }
  if (table.positions > 0) register_parameter(layer, "positions", {table.positions, out}, where);
  if (table.segments > 0) register_parameter(layer, "segments", {table.segments, out}, where);
  layer.output = {length, out};
  return push(std::move(layer), where);
}

int ModelBuilder::norm(Layer layer, int from, const SourceLocation& where) {
  layer.inputs = {from};
  if (!(layer.epsilon > 0)) report(where, subject_of(layer) + ": epsilon is above 0");
  if (readable(from, layer, where) && rows(layer, from, where)) {
    layer.output = output(from);
    register_parameter(layer, "weight", {layer.output.back()}, where);
    if (layer.bias) register_parameter(layer, "bias", {layer.output.back()}, where);
  }
  return push(std::move(layer), where);
}

int ModelBuilder::layer_norm(const std::string& name, int from, double epsilon, bool bias,
                             const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::layer_norm;
  layer.epsilon = epsilon;
  layer.bias = bias;
  return norm(std::move(layer), from, where);
}

int ModelBuilder::rms_norm(const std::string& name, int from, double epsilon, const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::rms_norm;
  layer.epsilon = epsilon;
  return norm(std::move(layer), from, where);
}

int ModelBuilder::gelu(const std::string& name, int from, bool approximate, const SourceLocation& where) {
  const int made = elementwise(LayerKind::gelu, name, from, where);
  model_.layers[static_cast<std::size_t>(made)].approximate = approximate;
  return made;
}

int ModelBuilder::silu(const std::string& name, int from, const SourceLocation& where) {
  return elementwise(LayerKind::silu, name, from, where);
}

int ModelBuilder::dropout(const std::string& name, int from, double probability,
                          const SourceLocation& where) {
  if (!(probability >= 0 && probability < 1))
    report(where, "dropout '" + name + "': the probability is at least 0 and below 1");
  const int made = elementwise(LayerKind::dropout, name, from, where);
  model_.layers[static_cast<std::size_t>(made)].probability = probability;
  return made;
}

int ModelBuilder::concat(const std::string& name, const std::vector<int>& from, const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::concat;
  layer.inputs = from;
  if (from.size() < 2) report(where, subject_of(layer) + " joins at least two inputs");
  bool known = from.size() >= 2;
  for (const int input : from) known = readable(input, layer, where) && rows(layer, input, where) && known;
  if (!known) return push(std::move(layer), where);
  const Shape first = output(from.front());
  Shape sum = first;
  for (std::size_t i = 1; i < from.size(); ++i) {
    const Shape& part = output(from[i]);
    if (part.size() != first.size() || (part.size() == 2 && part[0] != first[0])) {
      report(where, subject_of(layer) + " joins branches of different lengths: " + text_of(first) + " and " +
                        text_of(part));
      return push(std::move(layer), where);
    }
    sum.back() += part.back();
  }
  layer.output = sum;
  return push(std::move(layer), where);
}

int ModelBuilder::attention(const std::string& name, const std::vector<int>& from, AttentionHeads heads,
                            const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = LayerKind::attention;
  layer.inputs = from;
  layer.attention = heads;
  bool known = true;
  for (const int input : from) known = readable(input, layer, where) && rows(layer, input, where) && known;
  if (from.empty() || from.size() > 3) {
    report(where, subject_of(layer) + " reads one to three layers");
  } else if (known) {
    attend(layer, where);
  }
  return push(std::move(layer), where);
}

void ModelBuilder::attend(Layer& layer, const SourceLocation& where) {
  AttentionHeads& heads = layer.attention;
  if (heads.heads < 1 || heads.kv_heads < 1 || heads.heads % heads.kv_heads != 0) {
    report(where, subject_of(layer) + ": kv_heads (" + std::to_string(heads.kv_heads) +
                      ") must divide heads (" + std::to_string(heads.heads) + ")");
    return;
  }
  const std::int64_t parts[3] = {heads.heads, heads.kv_heads, heads.kv_heads};
  const auto& inputs = layer.inputs;
  const std::int64_t in_first = inputs.size() == 1 ? parts[0] + parts[1] + parts[2] : parts[0];
  const std::int64_t features = output(inputs[0]).back();
  if (heads.head_dim == 0 && features % in_first == 0) heads.head_dim = static_cast<int>(features / in_first);
  const std::int64_t in_other = inputs.size() == 2 ? parts[1] + parts[2] : parts[1];
  bool fits = heads.head_dim > 0;
  for (std::size_t i = 0; i < inputs.size() && fits; ++i) {
    const Shape& in = output(inputs[i]);
    fits = in.size() == 2 && in[1] == (i == 0 ? in_first : in_other) * heads.head_dim &&
           (i < 2 || in[0] == output(inputs[1])[0]);
  }
  if (!fits) {
    report(where, subject_of(layer) + ": " + std::to_string(heads.heads) + " heads and " +
                      std::to_string(heads.kv_heads) + " of keys and values do not fit an input of " +
                      text_of(output(inputs[0])) +
                      "; it packs q, k and v along the features, or reads them from two or three layers");
    return;
  }
  if (heads.rotary_base > 0 && heads.head_dim % 2 != 0) {
    report(where, subject_of(layer) + ": rotary positions need an even head_dim");
    return;
  }
  if (!(heads.dropout >= 0 && heads.dropout < 1)) {
    report(where, subject_of(layer) + ": dropout is at least 0 and below 1");
    return;
  }
  const std::int64_t queries = output(inputs[0])[0], keys = output(inputs.back())[0];
  if (heads.causal && queries != keys) {
    report(where, subject_of(layer) + ": causal attention needs as many queries as keys");
    return;
  }
  layer.output = {queries, std::int64_t{heads.heads} * heads.head_dim};
  // Of a causal one, half: what lies beyond the diagonal is not computed.
  const double pairs = heads.causal ? real(queries) * (real(queries) + 1) / 2 : real(queries) * real(keys);
  layer.forward_flops = Flops(4.0 * heads.heads * heads.head_dim * pairs);
}

int ModelBuilder::recurrence(LayerKind kind, const std::string& name, const std::vector<int>& from,
                             const RecurrentStack& stack, const SourceLocation& where) {
  Layer layer;
  layer.name = name;
  layer.kind = kind;
  layer.inputs = from;
  layer.recurrence = stack;
  bool known = true;
  for (const int input : from) known = readable(input, layer, where) && known;
  if (from.empty() || from.size() > 2) {
    report(where, subject_of(layer) + " reads a sequence, and the first state where it is not zero");
  } else if (known) {
    recur(layer, where);
  }
  return push(std::move(layer), where);
}

void ModelBuilder::recur(Layer& layer, const SourceLocation& where) {
  const RecurrentStack& stack = layer.recurrence;
  const Shape in = output(layer.inputs[0]);
  if (in.size() != 2) {
    report(where, subject_of(layer) + " needs a sequence of features, but its input is " + text_of(in));
    return;
  }
  if (stack.hidden < 1 || stack.layers < 1) {
    report(where, subject_of(layer) + ": hidden and layers are at least 1");
    return;
  }
  if (!(stack.dropout >= 0 && stack.dropout < 1)) {
    report(where, subject_of(layer) + ": dropout is at least 0 and below 1");
    return;
  }
  const Shape state = {states_of(layer.kind), stack.layers, stack.hidden};
  if (layer.inputs.size() == 2 && output(layer.inputs[1]) != state) {
    report(where, subject_of(layer) + " begins with a state of " + text_of(state) + ", but that of '" +
                      model_.layers[static_cast<std::size_t>(layer.inputs[1])].name + "' is " +
                      text_of(output(layer.inputs[1])));
    return;
  }
  if (layer.inputs.size() == 2 && stack.bidirectional) {
    report(where, subject_of(layer) + ": a bidirectional recurrence begins with a state of zero");
    return;
  }
  const std::int64_t rows = gates_of(layer.kind) * stack.hidden;
  double products = 0;
  for (int l = 0; l < stack.layers; ++l) {
    const std::int64_t width = l == 0 ? in[1] : stack.directions() * stack.hidden;
    for (int d = 0; d < stack.directions(); ++d) {
      const std::string suffix = "_l" + std::to_string(l) + (d == 1 ? "_reverse" : "");
      register_parameter(layer, "weight_ih" + suffix, {rows, width}, where);
      register_parameter(layer, "weight_hh" + suffix, {rows, stack.hidden}, where);
      register_parameter(layer, "bias_ih" + suffix, {rows}, where);
      register_parameter(layer, "bias_hh" + suffix, {rows}, where);
      products += real(rows) * (real(width) + real(stack.hidden));
    }
  }
  layer.output = stack.gives_state ? state : Shape{in[0], stack.directions() * stack.hidden};
  layer.forward_flops = Flops(2.0 * products * real(in[0]));
}

}  // namespace foretrain

#include "sim/training/model_description.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/spelling.hpp"
#include "sim/training/expression.hpp"
#include "sim/training/model_builder.hpp"

namespace foretrain {
namespace {

using Names = std::map<std::string, std::int64_t>;

constexpr int max_depth = 48;
constexpr std::int64_t max_steps = 2'000'000;

// A level of names.
struct Scope {
  std::string prefix;     // "layer1.0." or empty
  bool numbered = false;  // a sequence: entries without a name are called by their position
  int next = 0;
  std::map<std::string, int> counts;  // of entries called by their type
  Names names;                        // what expressions may use
  int block_input = 0;                // what "input" means here
};

class Expansion {
 public:
  explicit Expansion(const ModelDescription& description)
      : description_(description),
        builder_(description.name, description.input, description.classes, description.where) {}

  Model run() {
    Scope root;
    root.block_input = builder_.input();
    root.names["classes"] = description_.classes;
    if (description_.tokens > 0) {
      builder_.take_tokens(description_.tokens, description_.sequence);
      root.names["tokens"] = description_.tokens;
      root.names["sequence"] = description_.sequence;
    }
    for (const Argument& constant : description_.constants) {
      root.names[constant.key] = integer(constant, root).value_or(1);
    }
    constants_ = root.names;
    for (const BlockDescription& block : description_.blocks) {
      if (!blocks_.emplace(block.name, &block).second)
        builder_.report(block.where, "there are two blocks named '" + block.name + "'");
    }
    if (description_.layers.empty()) builder_.report(description_.where, "the model has no layers");
    all(description_.layers, root, builder_.input());
    Model model = builder_.finish();
    model.title = description_.title;
    model.unit = description_.unit;
    model.optimizer = description_.optimizer;
    return model;
  }

 private:
  int all(const std::vector<LayerDescription>& layers, Scope& scope, int current) {
    for (const LayerDescription& layer : layers) {
      if (builder_.full() || exhausted_) break;
      if (++steps_ > max_steps) {
        exhausted_ = true;
        builder_.report(layer.where, "the model takes more than 2,000,000 steps to expand");
        break;
      }
      current = one(layer, scope, current);
    }
    return current;
  }

  int one(const LayerDescription& layer, Scope& scope, int current) {
    if (layer.when) {
      const auto wanted = integer(*layer.when, scope);
      if (!wanted || *wanted == 0) return current;
    }
    if (layer.is_unreadable) {
      const std::string name = scope.prefix + local_name(layer, scope);
      return outputs_[name] = builder_.unreadable(name, current);
    }
    if (layer.type == "residual") return residual(layer, scope, source(layer, scope, current));
    if (layer.type == "repeat") return repeat(layer, scope, source(layer, scope, current));
    const std::string name = scope.prefix + local_name(layer, scope);
    int result = current;
    if (layer.type == "sequence") {
      Scope inner = scope;
      inner.prefix = name + '.';
      inner.numbered = true;
      inner.next = 0;
      inner.counts.clear();
      result = nested(layer, layer.layers, inner, source(layer, scope, current));
    } else if (const auto kind = layer_kind_named(layer.type); kind && *kind != LayerKind::input) {
      result = simple(*kind, name, layer, scope, current);
    } else if (const auto block = blocks_.find(layer.type); block != blocks_.end()) {
      result = use(*block->second, name, layer, scope, source(layer, scope, current));
    } else {
      builder_.report(layer.where,
                      "there is no layer '" + layer.type + "'" + did_you_mean(layer.type, types()));
    }
    outputs_[name] = result;
    return result;
  }

  std::string local_name(const LayerDescription& layer, Scope& scope) {
    const int position = scope.next++;
    if (!layer.name.empty()) return layer.name;
    if (scope.numbered) return std::to_string(position);
    const int count = ++scope.counts[layer.type];
    return count == 1 ? layer.type : layer.type + '_' + std::to_string(count);
  }

  std::vector<std::string> types() const {
    std::vector<std::string> known = {"sequence", "repeat", "residual"};
    for (int kind = 1; kind <= static_cast<int>(LayerKind::measured); ++kind)
      known.emplace_back(name_of(static_cast<LayerKind>(kind)));
    for (const auto& [name, block] : blocks_) known.push_back(name);
    return known;
  }

  // Nesting is bounded here: everything that contains layers passes through.
  int nested(const LayerDescription& owner, const std::vector<LayerDescription>& layers, Scope& scope,
             int current) {
    if (depth_ >= max_depth) {
      builder_.report(owner.where,
                      "blocks and branches are nested more than " + std::to_string(max_depth) + " deep");
      exhausted_ = true;
      return current;
    }
    ++depth_;
    current = all(layers, scope, current);
    --depth_;
    return current;
  }

  int residual(const LayerDescription& layer, Scope& scope, int input) {
    if (layer.layers.empty()) builder_.report(layer.where, "a residual needs a body");
    const int body = nested(layer, layer.layers, scope, input);
    const int shortcut = nested(layer, layer.shortcut, scope, input);
    LayerDescription join;
    join.type = "add";
    join.name = layer.name;
    const std::string name = scope.prefix + local_name(join, scope);
    return outputs_[name] = builder_.add(name, {body, shortcut}, layer.where);
  }

  int repeat(const LayerDescription& layer, Scope& scope, int current) {
    const auto times = required(layer, "times", scope);
    if (!times) return current;
    if (*times < 0 || *times > ModelBuilder::max_layers) {
      builder_.report(layer.find("times")->where, "times lies between 0 and " +
                                                      std::to_string(ModelBuilder::max_layers) + ", not " +
                                                      std::to_string(*times));
      return current;
    }
    const auto outer = scope.names;
    for (std::int64_t i = 0; i < *times && !builder_.full() && !exhausted_; ++i) {
      if (++steps_ > max_steps) {
        exhausted_ = true;
        builder_.report(layer.where, "the model takes more than 2,000,000 steps to expand");
        break;
      }
      if (layer.name.empty()) {
        if (!layer.index.empty()) scope.names[layer.index] = i;
        current = nested(layer, layer.layers, scope, current);
      } else {
        Scope inner;
        inner.prefix = scope.prefix + layer.name + '.' + std::to_string(i) + '.';
        inner.names = outer;
        inner.block_input = scope.block_input;
        if (!layer.index.empty()) inner.names[layer.index] = i;
        current = nested(layer, layer.layers, inner, current);
        outputs_[scope.prefix + layer.name + '.' + std::to_string(i)] = current;
      }
    }
    scope.names = outer;
    return current;
  }

  int use(const BlockDescription& block, const std::string& name, const LayerDescription& layer,
          const Scope& scope, int input) {
    if (!active_.insert(&block).second) {
      builder_.report(layer.where, "block '" + block.name + "' contains itself");
      return input;
    }
    Scope inner;
    inner.prefix = name + '.';
    inner.block_input = input;
    std::vector<std::string> known;
    inner.names = constants_;
    for (const auto& parameter : block.parameters) {
      known.push_back(parameter.name);
      const Argument* given = layer.find(parameter.name);
      std::optional<std::int64_t> value;
      if (given) {
        value = integer(*given, scope);
      } else if (parameter.standard) {
        value = integer(*parameter.standard, inner);
      } else {
        builder_.report(layer.where, "block '" + block.name + "' needs '" + parameter.name + "'");
      }
      // A stand-in, so that the block's own expressions do not fail as well.
      inner.names[parameter.name] = value.value_or(1);
    }
    for (const Argument& argument : layer.arguments) {
      if (std::find(known.begin(), known.end(), argument.key) == known.end())
        builder_.report(argument.where, "block '" + block.name + "' has no parameter '" + argument.key + "'" +
                                            did_you_mean(argument.key, known));
    }
    const int result = nested(layer, block.layers, inner, input);
    active_.erase(&block);
    return result;
  }

  int simple(LayerKind kind, const std::string& name, const LayerDescription& layer, const Scope& scope,
             int current) {
    switch (kind) {
      case LayerKind::add:
        return builder_.add(name, joined(layer, scope, current), layer.where);
      case LayerKind::multiply:
        return builder_.multiply(name, joined(layer, scope, current), layer.where);
      case LayerKind::concat:
        return builder_.concat(name, joined(layer, scope, current), layer.where);
      case LayerKind::attention:
        return attention(name, layer, scope, current);
      case LayerKind::rnn:
      case LayerKind::lstm:
      case LayerKind::gru:
        return recurrence(kind, name, layer, scope, current);
      default:
        break;
    }
    const int input = source(layer, scope, current);
    switch (kind) {
      case LayerKind::conv2d: {
        const auto out = required(layer, "out", scope);
        return builder_.conv2d(name, input, out.value_or(1), window(layer, scope, false), layer.bias,
                               layer.where);
      }
      case LayerKind::batch_norm:
        return builder_.batch_norm(name, input, layer.epsilon.value_or(1e-5), layer.momentum, layer.where);
      case LayerKind::layer_norm:
        return builder_.layer_norm(name, input, layer.epsilon.value_or(1e-5), layer.bias, layer.where);
      case LayerKind::rms_norm:
        return builder_.rms_norm(name, input, layer.epsilon.value_or(1e-6), layer.where);
      case LayerKind::embedding:
        return embedding(name, input, layer, scope);
      case LayerKind::gelu:
        return builder_.gelu(name, input, layer.approximate, layer.where);
      case LayerKind::silu:
        return builder_.silu(name, input, layer.where);
      case LayerKind::dropout:
        return builder_.dropout(name, input, layer.probability, layer.where);
      case LayerKind::relu:
        return builder_.relu(name, input, layer.where);
      case LayerKind::max_pool:
        return builder_.max_pool(name, input, window(layer, scope, true), layer.where);
      case LayerKind::avg_pool:
        return builder_.avg_pool(name, input, window(layer, scope, true), layer.where);
      case LayerKind::global_pool:
        return builder_.global_pool(name, input, layer.where);
      case LayerKind::linear: {
        const int tied = owner(layer, scope);
        const bool from_weight = !layer.tied.empty() && !layer.find("out");
        const auto out = from_weight ? 0 : required(layer, "out", scope).value_or(1);
        return builder_.linear(name, input, out, layer.bias, layer.where, tied);
      }
      case LayerKind::flatten:
        return builder_.flatten(name, input, layer.where);
      case LayerKind::softmax_cross_entropy:
        return builder_.softmax_cross_entropy(name, input, layer.where);
      case LayerKind::measured:
        return measured(name, input, layer, scope);
      case LayerKind::add:
      case LayerKind::multiply:
      case LayerKind::concat:
      case LayerKind::attention:
      case LayerKind::rnn:
      case LayerKind::lstm:
      case LayerKind::gru:
      case LayerKind::input:
        break;
    }
    return current;
  }

  std::vector<int> inputs_of(const LayerDescription& layer, const Scope& scope, int current) {
    std::vector<int> inputs;
    for (const std::string& from : layer.from) inputs.push_back(find(from, layer, scope).value_or(current));
    return inputs;
  }

  std::vector<int> joined(const LayerDescription& layer, const Scope& scope, int current) {
    std::vector<int> inputs = inputs_of(layer, scope, current);
    if (inputs.size() == 1) inputs.insert(inputs.begin(), current);
    return inputs;
  }

  std::int64_t number(const LayerDescription& layer, const char* key, const Scope& scope,
                      std::int64_t standard) {
    const Argument* argument = layer.find(key);
    return argument ? integer(*argument, scope).value_or(standard) : standard;
  }

  int count(const LayerDescription& layer, const char* key, const Scope& scope, int standard) {
    const Argument* argument = layer.find(key);
    return argument ? small(integer(*argument, scope), *argument) : standard;
  }

  // The layer that owns a tied weight, -1 for none.
  int owner(const LayerDescription& layer, const Scope& scope) {
    if (layer.tied.empty()) return -1;
    const auto found = find(layer.tied, layer, scope);
    return found && *found > 0 ? *found : -1;
  }

  int embedding(const std::string& name, int input, const LayerDescription& layer, const Scope& scope) {
    EmbeddingTable table;
    table.vocabulary = number(layer, "vocabulary", scope, 0);
    table.positions = number(layer, "positions", scope, 0);
    table.segments = number(layer, "segments", scope, 0);
    table.stream = count(layer, "stream", scope, 0);
    table.sinusoidal = layer.sinusoidal;
    table.scaled = layer.scaled;
    const int tied = owner(layer, scope);
    const bool from_weight = !layer.tied.empty() && !layer.find("out");
    const auto out = from_weight ? 0 : required(layer, "out", scope).value_or(1);
    // Tokens come from the model's input alone, wherever the layer stands.
    return builder_.embedding(name, layer.from.empty() ? builder_.input() : input, out, table, layer.where,
                              tied);
  }

  int attention(const std::string& name, const LayerDescription& layer, const Scope& scope, int current) {
    AttentionHeads heads;
    if (const auto given = required(layer, "heads", scope)) heads.heads = small(given, *layer.find("heads"));
    heads.kv_heads = count(layer, "kv_heads", scope, heads.heads);
    heads.head_dim = count(layer, "head_dim", scope, 0);
    heads.causal = layer.causal;
    heads.rotary_base = layer.rotary_base;
    heads.dropout = layer.probability;
    std::vector<int> inputs = inputs_of(layer, scope, current);
    if (inputs.empty()) inputs.push_back(current);
    return builder_.attention(name, inputs, heads, layer.where);
  }

  int recurrence(LayerKind kind, const std::string& name, const LayerDescription& layer, const Scope& scope,
                 int current) {
    RecurrentStack stack;
    stack.hidden = required(layer, "hidden", scope).value_or(1);
    stack.layers = count(layer, "layers", scope, 1);
    stack.bidirectional = layer.bidirectional;
    stack.unrolled = layer.unrolled;
    stack.gives_state = layer.gives_state;
    stack.dropout = layer.probability;
    std::vector<int> inputs = inputs_of(layer, scope, current);
    if (inputs.empty()) inputs.push_back(current);
    return builder_.recurrence(kind, name, inputs, stack, layer.where);
  }

  int measured(const std::string& name, int input, const LayerDescription& layer, const Scope& scope) {
    MeasuredLayer given;
    given.times = layer.times;
    given.output = shape(layer.output, scope);
    for (const NamedShape& parameter : layer.parameters)
      given.parameters.push_back({parameter.name, shape(parameter.shape, scope), 0, -1});
    return builder_.measured(name, input, given, layer.where);
  }

  Shape shape(const Argument& argument, const Scope& scope) {
    Shape result;
    for (const std::string& value : argument.values) {
      const auto extent = integer(value, argument.where, scope);
      if (!extent) return {};
      result.push_back(*extent);
    }
    return result;
  }

  Window window(const LayerDescription& layer, const Scope& scope, bool is_pool) {
    Window w;
    pair(layer, "kernel", scope, true, w.kernel_h, w.kernel_w);
    if (is_pool) {  // a pool's stride is its kernel where none is given
      w.stride_h = w.kernel_h;
      w.stride_w = w.kernel_w;
    }
    pair(layer, "stride", scope, false, w.stride_h, w.stride_w);
    pair(layer, "padding", scope, false, w.pad_h, w.pad_w);
    pair(layer, "dilation", scope, false, w.dilation_h, w.dilation_w);
    if (const Argument* groups = layer.find("groups")) w.groups = small(integer(*groups, scope), *groups);
    w.count_padding = layer.count_padding;
    return w;
  }

  void pair(const LayerDescription& layer, const std::string& key, const Scope& scope, bool needed, int& h,
            int& w) {
    const Argument* argument = layer.find(key);
    if (!argument) {
      if (needed) builder_.report(layer.where, layer.type + " needs '" + key + "'");
      return;
    }
    const std::size_t count = argument->values.size();
    if (count != 1 && count != 2) {
      builder_.report(argument->where, key + " is one number, or height and width");
      return;
    }
    h = small(integer(argument->values.front(), argument->where, scope), *argument);
    w = count == 1 ? h : small(integer(argument->values.back(), argument->where, scope), *argument);
  }

  // Extents of a window; beyond 65,535 nothing is meant.
  int small(std::optional<std::int64_t> value, const Argument& argument) {
    if (!value) return 1;
    if (*value >= 0 && *value <= 65'535) return static_cast<int>(*value);
    builder_.report(argument.where,
                    argument.key + " lies between 0 and 65535, not " + std::to_string(*value));
    return 1;
  }

  int source(const LayerDescription& layer, const Scope& scope, int current) {
    if (layer.from.empty()) return current;
    if (layer.from.size() > 1)
      builder_.report(layer.where,
                      layer.type + " reads one layer; only add, multiply and concat join several");
    return find(layer.from.front(), layer, scope).value_or(current);
  }

  std::optional<int> find(const std::string& name, const LayerDescription& layer, const Scope& scope) {
    if (name == "input") return scope.block_input;
    for (std::string prefix = scope.prefix;;) {
      if (const auto found = outputs_.find(prefix + name); found != outputs_.end()) return found->second;
      if (prefix.empty()) break;
      const auto dot = prefix.size() < 2 ? std::string::npos : prefix.rfind('.', prefix.size() - 2);
      prefix.resize(dot == std::string::npos ? 0 : dot + 1);
    }
    std::vector<std::string> known = {"input"};
    for (const auto& [path, id] : outputs_)
      if (path.starts_with(scope.prefix)) known.push_back(path.substr(scope.prefix.size()));
    builder_.report(layer.where,
                    "no layer before this one is called '" + name + "'" + did_you_mean(name, known));
    return std::nullopt;
  }

  std::optional<std::int64_t> required(const LayerDescription& layer, const std::string& key,
                                       const Scope& scope) {
    if (const Argument* argument = layer.find(key)) return integer(*argument, scope);
    builder_.report(layer.where, layer.type + " needs '" + key + "'");
    return std::nullopt;
  }

  std::optional<std::int64_t> integer(const Argument& argument, const Scope& scope) {
    if (argument.values.size() == 1) return integer(argument.values.front(), argument.where, scope);
    builder_.report(argument.where, argument.key + " is one number");
    return std::nullopt;
  }

  std::optional<std::int64_t> integer(const std::string& text, const SourceLocation& where,
                                      const Scope& scope) {
    const auto result = evaluate(text, scope.names);
    if (const auto* value = std::get_if<std::int64_t>(&result)) return *value;
    builder_.report(where, std::get<ExpressionError>(result).what);
    return std::nullopt;
  }

  const ModelDescription& description_;
  ModelBuilder builder_;
  std::map<std::string, const BlockDescription*> blocks_;
  Names constants_;
  std::map<std::string, int> outputs_;  // full name of a layer, sequence, block -> what it puts out
  std::set<const BlockDescription*> active_;
  int depth_ = 0;
  std::int64_t steps_ = 0;
  bool exhausted_ = false;
};

}  // namespace

const Argument* LayerDescription::find(const std::string& key) const {
  for (const Argument& argument : arguments)
    if (argument.key == key) return &argument;
  return nullptr;
}

Model expand(const ModelDescription& description) {
  return Expansion(description).run();
}

}  // namespace foretrain

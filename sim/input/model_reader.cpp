#include "sim/input/model_reader.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <utility>

#include "sim/base/spelling.hpp"
#include "sim/input/fields.hpp"
#include "sim/input/model_schema.hpp"
#include "sim/input/optimizer_reader.hpp"
#include "sim/input/scalars.hpp"
#include "sim/training/expression.hpp"
#include "sim/training/model_description.hpp"
#include "sim/training/parameter_list.hpp"

namespace foretrain {
namespace {

// Reads the parts of a model file into a description; findings go to the diagnostics, and a layer that could
// not be read is marked, so that expansion goes on around it.
class Reader {
 public:
  explicit Reader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  // `sequence`: in place of the model's own length.
  ModelDescription graph(const Value& root, const Fields& fields, std::optional<std::int64_t> sequence) {
    ModelDescription model;
    model.where = root.where();
    read_input(model, fields, sequence);
    model.classes = fields.integer("classes").value_or(std::max<std::int64_t>(1, model.tokens));
    for (const char* key : {"input", "classes"})
      if (!fields.has(key) && (model.tokens == 0 || std::string(key) == "input"))
        diagnostics_.error(root.where(),
                           std::string("model has no '") + key + "', which a model with layers needs");
    if (const Value* constants = fields.find("constants")) {
      for (const Member& member : constants->members) {
        check_name(member.key, member.where, "constant");
        model.constants.push_back(argument(member.key, member.value));
      }
    }
    if (const Value* blocks = fields.find("blocks")) {
      for (const Member& member : blocks->members) block_names_.push_back(member.key);
      for (const Member& member : blocks->members) model.blocks.push_back(block(member));
    }
    if (const Value* layers = fields.find("layers")) model.layers = list(*layers);
    return model;
  }

  std::vector<ParameterDescription> parameters(const Value& value) {
    std::vector<ParameterDescription> all;
    for (const Value& item : value.items) {
      if (!item.is_map()) continue;  // found by the table
      const Fields fields(&item, parameter_item_schema());
      ParameterDescription parameter;
      parameter.name = fields.text("name").value_or("");
      parameter.where = item.where();
      if (const Value* shape = fields.find("shape")) parameter.shape = plain_shape(*shape);
      all.push_back(std::move(parameter));
    }
    return all;
  }

 private:
  // An image, or tokens.
  void read_input(ModelDescription& model, const Fields& fields, std::optional<std::int64_t> sequence) {
    const Fields input = fields.fields("input");
    const bool has_tokens = input.has("tokens");
    for (const char* key : {"channels", "height", "width"}) {
      if (has_tokens && input.has(key))
        diagnostics_.error(input.where(key), std::string(key) + ": the input is of tokens, which have none");
      if (!has_tokens && fields.has("input") && !input.has(key))
        diagnostics_.error(input.where(key), std::string("input has no '") + key +
                                                 "', which an image needs; or it is of tokens, as in "
                                                 "'input: { tokens: 32768 }'");
    }
    if (!has_tokens) {
      model.input = {input.integer("channels").value_or(1), input.integer("height").value_or(1),
                     input.integer("width").value_or(1)};
      for (const char* key : {"sequence", "streams"}) {
        const Fields& holder = std::string(key) == "sequence" ? fields : input;
        if (holder.has(key)) diagnostics_.error(holder.where(key), std::string(key) + ": an image has none");
      }
      return;
    }
    model.tokens = input.integer("tokens").value_or(1);
    if (!fields.has("sequence"))
      diagnostics_.error(input.where("tokens"),
                         "model has no 'sequence', the length of a sample, which one of tokens needs");
    model.sequence = sequence.value_or(fields.integer("sequence").value_or(1));
    const std::int64_t streams = input.integer("streams").value_or(1);
    model.input = streams > 1 ? Shape{streams, model.sequence} : Shape{model.sequence};
  }

  void check_name(const std::string& name, const SourceLocation& where, const char* what) {
    static const std::set<std::string, std::less<>> reserved = {"name",  "from",     "when",
                                                                "input", "sequence", "tokens"};
    if (!is_identifier(name)) {
      diagnostics_.error(where, std::string(what) + " '" + name + "': a name is letters, digits and '_'");
    } else if (reserved.contains(name) || find_layer_schema(name)) {
      diagnostics_.error(where, std::string(what) + " '" + name + "': the name has a meaning of its own");
    }
  }

  BlockDescription block(const Member& member) {
    BlockDescription made;
    made.name = member.key;
    made.where = member.where;
    check_name(member.key, member.where, "block");
    check_map(member.value, block_schema(), diagnostics_);
    if (!member.value.is_map()) return made;
    const Fields fields(&member.value, block_schema());
    if (const Value* parameters = fields.find("parameters")) {
      for (const Value& item : parameters->items) {
        BlockDescription::BlockParameter parameter;
        parameter.where = item.where();
        if (item.is_scalar()) {
          parameter.name = item.text;
        } else if (item.is_map() && item.members.size() == 1) {
          parameter.name = item.members[0].key;
          parameter.standard = argument(parameter.name, item.members[0].value);
        } else {
          diagnostics_.error(item.where(), "a block's parameter is a name, or 'name: default'");
          continue;
        }
        check_name(parameter.name, parameter.where, "parameter");
        made.parameters.push_back(std::move(parameter));
      }
    }
    if (const Value* layers = fields.find("layers")) made.layers = list(*layers);
    return made;
  }

  std::vector<LayerDescription> list(const Value& value) {
    std::vector<LayerDescription> layers;
    for (const Value& item : value.items) {
      if (item.is_scalar()) {
        layers.push_back(layer(item.text, item.where(), empty_));
      } else if (item.is_map() && item.members.size() == 1) {
        const Member& member = item.members[0];
        layers.push_back(layer(member.key, member.where, member.value.is_null() ? empty_ : member.value));
      } else {
        diagnostics_.error(item.where(), "a layer is '- kind' or '- kind: { keys }', with one kind");
        LayerDescription unknown;
        unknown.type = "layer";
        unknown.is_unreadable = true;
        layers.push_back(std::move(unknown));
      }
    }
    return layers;
  }

  LayerDescription layer(const std::string& type, const SourceLocation& where, const Value& map) {
    LayerDescription made;
    made.type = type;
    made.where = where;
    const std::size_t before = diagnostics_.error_count();
    const Schema* schema = find_layer_schema(type);
    if (schema) {
      Value keys = map;
      if (!map.file) {  // '- kind' alone: what is missing is missing here
        keys.file = std::make_shared<const std::string>(where.file);
        keys.line = where.line;
        keys.column = where.column;
      }
      check_map(keys, *schema, diagnostics_);
    } else if (!is_block(type)) {
      std::vector<std::string> known = block_names_;
      for (const Schema* each : layer_schemas()) known.push_back(each->name);
      diagnostics_.error(where, "there is no layer '" + type + "'" + did_you_mean(type, known));
    } else if (!map.is_map()) {
      diagnostics_.error(where,
                         type + ": is " + name_of(map.kind) + ": it takes a map of the block's parameters");
    }
    if (map.is_map()) read_common(map, made);
    if (map.is_map() && schema) {
      read_own(map, *schema, made);
    } else if (map.is_map()) {
      for (const Member& member : map.members)
        if (!is_common(member.key)) made.arguments.push_back(argument(member.key, member.value));
    }
    made.is_unreadable = diagnostics_.error_count() != before;
    for (const char* key : {"layers", "body"})
      if (const Value* inner = map.find(key); inner && schema && schema->find(key))
        made.layers = list(*inner);
    if (const Value* inner = map.find("shortcut"); inner && schema && schema->find("shortcut"))
      made.shortcut = list(*inner);
    return made;
  }

  static bool is_common(const std::string& key) { return key == "name" || key == "from" || key == "when"; }

  bool is_block(const std::string& type) const {
    for (const std::string& name : block_names_)
      if (name == type) return true;
    return false;
  }

  void read_common(const Value& map, LayerDescription& made) {
    if (const Value* name = map.find("name"); name && name->is_scalar()) {
      made.name = name->text;
      if (!is_layer_name(made.name)) {
        diagnostics_.error(name->where(),
                           "name: '" + made.name +
                               "' is no name of a layer: letters, digits, '_', '-' and '.' between "
                               "them, at most 100, and not 'input'");
        made.name.clear();
      }
    }
    if (const Value* from = map.find("from")) {
      if (from->is_scalar()) made.from.push_back(from->text);
      for (const Value& item : from->items) {
        if (item.is_scalar()) {
          made.from.push_back(item.text);
        } else {
          diagnostics_.error(item.where(), "from: names of layers");
        }
      }
    }
    if (const Value* when = map.find("when")) made.when = argument("when", *when);
  }

  static bool is_layer_name(const std::string& name) {
    if (name.empty() || name.size() > 100 || name == "input") return false;
    bool after_dot = true;
    for (const char c : name) {
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                        c == '_' || c == '-' || (c == '.' && !after_dot);
      if (!fits) return false;
      after_dot = c == '.';
    }
    return !after_dot;
  }

  void read_own(const Value& map, const Schema& schema, LayerDescription& made) {
    const Fields fields(&map, schema);
    for (const char* key : {"out", "kernel", "stride", "padding", "dilation", "groups", "times", "vocabulary",
                            "positions", "segments", "stream", "heads", "kv_heads", "head_dim", "hidden"})
      if (schema.find(key) && fields.has(key)) made.arguments.push_back(argument(key, *fields.find(key)));
    if (schema.find("bias")) made.bias = fields.boolean("bias").value_or(true);
    if (schema.find("count_padding")) made.count_padding = fields.boolean("count_padding").value_or(true);
    if (schema.find("epsilon")) made.epsilon = fields.number("epsilon");
    read_sequence_layer(fields, schema, made);
    if (schema.find("momentum")) made.momentum = fields.number("momentum").value_or(made.momentum);
    if (schema.find("index") && fields.has("index")) {
      made.index = fields.text("index").value_or("");
      check_name(made.index, fields.where("index"), "index");
    }
    if (made.type == "measured") read_measured(fields, made);
  }

  void read_sequence_layer(const Fields& fields, const Schema& schema, LayerDescription& made) {
    // The number of a recurrence's layers, not a list of them.
    if (const KeySpec* layers = schema.find("layers"); layers && !includes(layers->type, Type::list))
      if (const Value* value = fields.find("layers")) made.arguments.push_back(argument("layers", *value));
    const std::pair<const char*, bool*> flags[] = {
        {"approximate", &made.approximate},     {"causal", &made.causal},
        {"sinusoidal", &made.sinusoidal},       {"scaled", &made.scaled},
        {"bidirectional", &made.bidirectional}, {"unrolled", &made.unrolled}};
    for (const auto& [key, flag] : flags)
      if (schema.find(key)) *flag = fields.boolean(key).value_or(false);
    if (schema.find("tied")) made.tied = fields.text("tied").value_or("");
    if (schema.find("gives")) made.gives_state = fields.text("gives").value_or("sequence") == "state";
    if (schema.find("rotary")) made.rotary_base = fields.number("rotary").value_or(0);
    for (const char* key : {"probability", "dropout"})
      if (schema.find(key)) made.probability = fields.number(key).value_or(0);
  }

  void read_measured(const Fields& fields, LayerDescription& made) {
    if (const Value* output = fields.find("output")) made.output = argument("output", *output);
    if (const Value* parameters = fields.find("parameters")) {
      for (const Member& member : parameters->members)
        made.parameters.push_back({member.key, argument(member.key, member.value)});
    }
    made.times.forward = fields.time("forward").value_or(Time());
    made.times.forward_per_sample = fields.time("forward_per_sample").value_or(Time());
    made.times.backward = fields.time("backward").value_or(Time());
    made.times.backward_per_sample = fields.time("backward_per_sample").value_or(Time());
    made.times.launches_forward = static_cast<int>(fields.integer("launches_forward").value_or(1));
    made.times.launches_backward = static_cast<int>(fields.integer("launches_backward").value_or(1));
  }

  // Scalars as text, to be evaluated when the model is expanded.
  Argument argument(const std::string& key, const Value& value) {
    Argument made{key, {}, value.where()};
    if (value.is_scalar()) made.values.push_back(value.text);
    bool fits = value.is_scalar() || value.is_sequence();
    for (const Value& item : value.items) {
      fits = fits && item.is_scalar();
      made.values.push_back(item.text);
    }
    if (!fits) diagnostics_.error(value.where(), key + ": it takes an integer expression, or a list of them");
    return made;
  }

  Shape plain_shape(const Value& value) {
    Shape shape;
    for (const Value& item : value.items) {
      const auto extent = parse_integer(item.text);
      if (item.is_scalar() && std::holds_alternative<std::int64_t>(extent)) {
        shape.push_back(std::get<std::int64_t>(extent));
      } else {
        diagnostics_.error(item.where(), "shape: a list of whole numbers, as in 'shape: [1000, 512]'");
        return {1};  // so that this is the only finding
      }
    }
    return shape;
  }

  static Value make_empty() {
    Value value;
    value.kind = ValueKind::map;
    return value;
  }

  Diagnostics& diagnostics_;
  std::vector<std::string> block_names_;
  const Value empty_ = make_empty();
};

Model read_parameter_list(const std::string& name, const Value& root, const Fields& fields, Reader& reader,
                          Diagnostics& diagnostics) {
  for (const char* key : {"layers", "blocks", "constants"})
    if (fields.has(key))
      diagnostics.error(fields.where(key),
                        std::string(key) + ": a model has layers or a list of parameters, not both");
  const Value& parameters = *fields.find("parameters");
  if (!diagnostics.ok()) return {};
  if (parameters.is_scalar())
    return list_of_parameters(name, fields.integer("parameters").value_or(0), parameters.where());
  if (parameters.items.empty()) {
    diagnostics.error(root.where(), "parameters: the list is empty");
    return {};
  }
  const auto described = reader.parameters(parameters);
  return diagnostics.ok() ? list_of_parameters(name, described) : Model();
}

// Keys over those of a base file, constants one by one.
Value overlaid(const Value& over, Value base) {
  for (const Member& member : over.members) {
    Member* below = nullptr;
    for (Member& each : base.members)
      if (each.key == member.key) below = &each;
    if (below == nullptr) {
      base.members.push_back(member);
    } else if (member.key == "constants" && below->value.is_map() && member.value.is_map()) {
      below->value = overlaid(member.value, below->value);
    } else {
      below->value = member.value;
    }
  }
  std::erase_if(base.members, [](const Member& each) { return each.key == "base"; });
  base.file = over.file;
  base.line = over.line;
  base.column = over.column;
  return base;
}

// The model over its base, which has none itself.
Value with_base(const Value& root, Diagnostics& diagnostics) {
  const Value* base = root.find("base");
  if (base == nullptr || !base->is_scalar()) return root;
  const bool is_name = !base->text.empty() && std::all_of(base->text.begin(), base->text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  if (!is_name || !root.file) {
    diagnostics.error(base->where(), "base: the name of a model beside this file, without .yaml");
    return root;
  }
  const auto path = std::filesystem::path(*root.file).parent_path() / (base->text + ".yaml");
  const auto below = read_document(path, diagnostics);
  if (!below || !below->is_map()) return root;
  if (below->find("base")) {
    diagnostics.error(base->where(), "base: '" + base->text + "' has a base itself");
    return root;
  }
  return overlaid(root, *below);
}

}  // namespace

std::shared_ptr<const Model> read_model(const Value& given, Diagnostics& diagnostics,
                                        std::optional<std::int64_t> sequence) {
  Diagnostics own;
  Model model;
  const Value root = with_base(given, own);
  check_map(root, model_schema(), own);
  if (root.is_map()) {
    const Fields fields(&root, model_schema());
    std::string name = fields.text("name").value_or("");
    if (!fields.has("name") && root.file) name = std::filesystem::path(*root.file).stem().string();
    Reader reader(own);
    Optimizer optimizer;
    if (const Value* map = fields.find("optimizer"); map && map->is_map())
      optimizer = read_optimizer(*map, optimizer, own);
    try {
      if (fields.has("parameters")) {
        model = read_parameter_list(name, root, fields, reader, own);
      } else if (fields.has("layers")) {
        ModelDescription description = reader.graph(root, fields, sequence);
        description.name = name;
        model = expand(description);
      } else {
        own.error(root.where(), "model has neither 'layers' nor 'parameters'");
      }
    } catch (const Error& error) {
      for (const Diagnostic& finding : error.diagnostics())
        own.error(finding.where.line > 0 ? finding.where : root.where(), finding.what);
    }
    model.title = fields.text("title").value_or(name);
    model.unit = fields.text("unit").value_or("images");
    model.optimizer = optimizer;
  }
  diagnostics.merge(own);
  return own.ok() ? std::make_shared<const Model>(std::move(model)) : nullptr;
}

}  // namespace foretrain

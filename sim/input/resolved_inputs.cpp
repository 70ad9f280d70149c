#include "sim/input/resolved_inputs.hpp"

namespace foretrain {

std::string one_line(const Value& value) {
  std::string out;
  switch (value.kind) {
    case ValueKind::null:
      return "null";
    case ValueKind::scalar:
      return value.text;
    case ValueKind::sequence:
      for (const Value& item : value.items) out += (out.empty() ? "" : ", ") + one_line(item);
      return "[" + out + "]";
    case ValueKind::map:
      for (const Member& member : value.members) {
        out += (out.empty() ? "" : ", ") + member.key + ": " + one_line(member.value);
      }
      return "{ " + out + " }";
  }
  return out;
}

void add_given(const std::string& path, const Value& value, std::vector<ResolvedInput>& inputs) {
  if (!value.is_map()) {
    inputs.push_back({path, one_line(value), Origin::measured, false});
    return;
  }
  for (const Member& member : value.members) {
    add_given(path.empty() ? member.key : path + "." + member.key, member.value, inputs);
  }
}

void add_inputs(const std::string& path, const Value* map, const Schema& schema,
                std::vector<ResolvedInput>& inputs) {
  for (const KeySpec& key : schema.keys) {
    const std::string below = path.empty() ? key.name : path + "." + key.name;
    const Value* value = map == nullptr ? nullptr : map->find(key.name);
    if (value != nullptr && value->is_map() && key.keys != nullptr) {
      add_inputs(below, value, *key.keys, inputs);
    } else if (value != nullptr) {
      add_given(below, *value, inputs);
    } else if (!key.default_value.empty()) {
      inputs.push_back({below, key.default_value, Origin::assumed, true});
    }
  }
}

}  // namespace foretrain

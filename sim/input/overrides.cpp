#include "sim/input/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>

#include "sim/input/strategy_reader.hpp"

namespace foretrain {
namespace {

Value* member_of(Value& map, std::string_view key) {
  for (Member& member : map.members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

// "strategy.kind" and "strategy.data.kind" name the same key, in whichever form the file has it; of the two
// keys of `batch` one takes the other's place, and so do keys of one fusion those of another.
std::string normal_path(Value& root, const std::string& path, const std::string& value) {
  static const std::string strategy = "strategy.", data = "strategy.data.";
  if (path.starts_with(strategy) && path != "strategy.data") {
    Value* map = member_of(root, "strategy");
    Value* long_form = map == nullptr ? nullptr : member_of(*map, "data");
    const std::string key = path.substr((path.starts_with(data) ? data : strategy).size());
    if (map == nullptr) return path;
    make_room(long_form != nullptr ? *long_form : *map, key, value);
    return (long_form != nullptr ? data : strategy) + key;
  }
  for (const auto& [own, other] : {std::pair("batch.per_worker", "global"), {"batch.global", "per_worker"}}) {
    if (path != own) continue;
    if (Value* batch = member_of(root, "batch")) {
      std::erase_if(batch->members, [key = other](const Member& each) { return each.key == key; });
    }
  }
  return path;
}

Value* value_at(Value& root, const std::string& path) {
  Value* at = &root;
  for (std::size_t begin = 0; at != nullptr && begin <= path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const std::string_view key = std::string_view(path).substr(begin, dot - begin);
    if (at->is_sequence()) {
      std::size_t index = at->items.size();
      std::from_chars(key.data(), key.data() + key.size(), index);
      at = index < at->items.size() ? &at->items[index] : nullptr;
    } else {
      at = member_of(*at, key);
    }
    begin = dot + 1;
  }
  return at;
}

struct Applied {
  std::string path;
  const Override* override;
  std::shared_ptr<const std::string> file;  // that of the value which it left
};

}  // namespace

std::string Override::written() const {
  static const std::string profile = "profile=";
  if (option != std::string_view("--profile") || !text.starts_with(profile))
    return fmt::format("{} {}", option, text);
  // One name stands there in quotes of YAML.
  std::string_view name = std::string_view(text).substr(profile.size());
  if (name.size() > 2 && name.starts_with('\'') && name.ends_with('\''))
    name = name.substr(1, name.size() - 2);
  return fmt::format("{} {}", option, name);
}

void apply_overrides(Value& root, const Overrides& overrides, Diagnostics& diagnostics) {
  std::vector<Applied> applied;
  for (const Override& override : overrides) {
    const std::string& text = override.text;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      diagnostics.error({override.written()},
                        fmt::format("takes PATH=VALUE, as in {} cluster.nodes=4", override.option));
      continue;
    }
    const std::string value = text.substr(equals + 1);
    const std::string path = normal_path(root, text.substr(0, equals), value);
    set_value(root, path, value, override.written(), diagnostics);
    // The same key again: the last one counts.
    std::erase_if(applied, [&](const Applied& earlier) { return earlier.path == path; });
    std::erase_if(applied, [&](const Applied& earlier) {
      const Value* left = value_at(root, earlier.path);
      if (left != nullptr && left->file == earlier.file) return false;
      diagnostics.error(
          {override.written()},
          fmt::format("undoes '{}', which is set as well: leave one of them out{}", earlier.override->text,
                      earlier.path.starts_with(path + '.') ? ", or put it first" : ""));
      return true;
    });
    if (const Value* own = value_at(root, path)) applied.push_back({path, &override, own->file});
  }
}

}  // namespace foretrain

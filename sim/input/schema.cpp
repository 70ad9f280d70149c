#include "sim/input/schema.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "sim/base/spelling.hpp"
#include "sim/input/scalars.hpp"

namespace foretrain {
namespace {

struct TypeName {
  Type type;
  const char* name;
};
constexpr std::array type_names{
    TypeName{Type::text, "a word"},
    TypeName{Type::number, "a number"},
    TypeName{Type::integer, "a whole number"},
    TypeName{Type::boolean, "true or false"},
    TypeName{Type::time, "a time"},
    TypeName{Type::job_time, "a time"},
    TypeName{Type::bytes, "a size"},
    TypeName{Type::rate, "a rate"},
    TypeName{Type::interval, "an interval"},
    TypeName{Type::price, "a price"},
    TypeName{Type::power, "a power"},
    TypeName{Type::gpu_hours, "a number of GPU-hours"},
    TypeName{Type::list, "a list"},
    TypeName{Type::map, "a map of keys"},
    TypeName{Type::anything, "any value"},
};

std::string words(const std::vector<std::string>& all) {
  std::string out;
  for (const std::string& word : all) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string example_of(const KeySpec& key) {
  return key.example.empty() ? std::string() : fmt::format(", as in '{}: {}'", key.name, key.example);
}

// A scalar read as one of the types: its number in base units (no number for words), or why it is none.
struct Reading {
  std::optional<double> number;
  std::string problem;
};

template <typename T, typename Convert>
Reading reading(const std::variant<T, UnitError>& parsed, Convert convert) {
  if (const auto* error = std::get_if<UnitError>(&parsed)) return {std::nullopt, error->what};
  return {convert(std::get<T>(parsed)), {}};
}

Reading read_as(Type type, const Value& value) {
  const std::string& text = value.text;
  const bool plain_needed = type == Type::number || type == Type::integer || type == Type::boolean;
  if (plain_needed && value.quoted) {
    return {std::nullopt, fmt::format("\"{}\" is quoted and therefore text: write it without quotes", text)};
  }
  auto same = [](double x) { return x; };
  switch (type) {
    case Type::number:
      return reading(parse_plain_number(text), same);
    case Type::integer:
      return reading(parse_integer(text), [](std::int64_t n) { return static_cast<double>(n); });
    case Type::boolean:
      return reading(parse_boolean(text), [](bool b) { return b ? 1.0 : 0.0; });
    case Type::time:
      return reading(parse_time(text), [](Time t) { return t.in_seconds(); });
    case Type::job_time:
      return reading(parse_job_time(text), [](JobTime t) { return t.in_seconds(); });
    case Type::bytes:
      return reading(parse_bytes(text), [](Bytes b) { return static_cast<double>(b.count()); });
    case Type::rate:
      return reading(parse_rate(text), [](Rate r) { return r.bytes_per_second(); });
    case Type::interval:
      return reading(parse_interval(text), [](const Interval& interval) { return interval.amount; });
    case Type::power:
      return reading(parse_power(text), same);
    case Type::gpu_hours:
      return reading(parse_gpu_hours(text), same);
    case Type::price:
      return reading(parse_price(text), [](const Price& p) { return p.per_gpu_hour; });
    default:
      return {};
  }
}

void check_bounds(const Value& value, const KeySpec& key, Type type, double number,
                  Diagnostics& diagnostics) {
  auto refuse = [&](const char* relation, double bound) {
    diagnostics.error(value.where(), fmt::format("{}: '{}' is out of range: it must be {} {}", key.name,
                                                 value.text, relation, shown_bound(bound, type)));
  };
  if (number < key.at_least) return refuse("at least", key.at_least);
  if (number <= key.above) return refuse("above", key.above);
  if (number > key.at_most) return refuse("at most", key.at_most);
  if (number >= key.usual_low && number <= key.usual_high) return;
  std::string range = std::isinf(key.usual_low)    ? "up to " + shown_bound(key.usual_high, type)
                      : std::isinf(key.usual_high) ? "from " + shown_bound(key.usual_low, type)
                                                   : fmt::format("{} to {}", shown_bound(key.usual_low, type),
                                                                 shown_bound(key.usual_high, type));
  const std::string meant = meant_quantity(value.text, key.usual_low, key.usual_high);
  diagnostics.warning(
      value.where(), fmt::format("{}: '{}' is implausible (usual: {}){}", key.name, value.text, range,
                                 meant.empty() ? std::string() : fmt::format("; did you mean '{}'?", meant)));
}

void check_word(const Value& value, const KeySpec& key, Diagnostics& diagnostics) {
  for (const NotModelled& later : key.not_modelled) {
    if (value.text == later.name) {
      diagnostics.error(value.where(), fmt::format("{}: '{}' is not modelled yet; nearest is '{}'", key.name,
                                                   later.name, later.nearest));
      return;
    }
  }
  if (value.text.empty()) {
    diagnostics.error(value.where(), fmt::format("{}: is an empty text", key.name));
    return;
  }
  if (key.allowed.empty()) return;
  for (const std::string& word : key.allowed) {
    if (word == value.text) return;
  }
  diagnostics.error(value.where(), fmt::format("{}: '{}' is unknown: allowed are {}{}", key.name, value.text,
                                               words(key.allowed), did_you_mean(value.text, key.allowed)));
}

void check_scalar(const Value& value, const KeySpec& key, Diagnostics& diagnostics) {
  std::string first_problem;
  for (const TypeName& candidate : type_names) {
    if (candidate.type == Type::text || !includes(key.type, candidate.type)) continue;
    const Reading read = read_as(candidate.type, value);
    if (read.number) {
      check_bounds(value, key, candidate.type, *read.number, diagnostics);
      return;
    }
    if (first_problem.empty()) first_problem = read.problem;
  }
  if (includes(key.type, Type::text)) return check_word(value, key, diagnostics);
  if (first_problem.empty()) {
    first_problem = fmt::format("is a single value ('{}'): it takes {}{}", value.text, name_of(key.type),
                                example_of(key));
  }
  diagnostics.error(value.where(), key.name + ": " + first_problem);
}

}  // namespace

std::string name_of(Type types) {
  std::string all;
  for (const TypeName& candidate : type_names) {
    if (!includes(types, candidate.type)) continue;
    if (all.ends_with(candidate.name)) continue;
    all += (all.empty() ? "" : " or ") + std::string(candidate.name);
  }
  return all;
}

std::string shown_bound(double value, Type type) {
  if (includes(type, Type::time | Type::job_time)) return format_time(value);
  if (includes(type, Type::bytes)) {
    const bool binary = value >= 1024 && std::fmod(value, 1024) == 0;
    if (!binary) return format_bytes(value);
    const bool mebi = std::fmod(value, 1048576) == 0;
    const bool gibi = std::fmod(value, 1073741824) == 0;
    return gibi   ? fmt::format("{} GiB", value / 1073741824)
           : mebi ? fmt::format("{} MiB", value / 1048576)
                  : fmt::format("{} KiB", value / 1024);
  }
  if (includes(type, Type::rate)) return fmt::format("{}", format_bit_rate(Rate(value)));
  return fmt::format("{}", value);
}

const KeySpec* Schema::find(std::string_view key) const {
  for (const KeySpec& candidate : keys) {
    if (candidate.name == key) return &candidate;
  }
  return nullptr;
}

std::vector<std::string> Schema::names() const {
  std::vector<std::string> all;
  for (const KeySpec& key : keys) all.push_back(key.name);
  return all;
}

void check_value(const Value& value, const KeySpec& key, Diagnostics& diagnostics) {
  if (!key.not_simulated.empty()) {
    diagnostics.error(value.where(), fmt::format("{}: {}", key.name, key.not_simulated));
  }
  if (!key.without_effect.empty()) {
    diagnostics.warning(value.where(), fmt::format("{}: {}", key.name, key.without_effect));
  }
  if (includes(key.type, Type::anything)) return;
  const bool is_fitting = value.is_map()        ? includes(key.type, Type::map)
                          : value.is_sequence() ? includes(key.type, Type::list)
                                                : value.is_scalar();
  if (!is_fitting) {
    diagnostics.error(value.where(), fmt::format("{}: is {}: it takes {}{}", key.name, name_of(value.kind),
                                                 name_of(key.type), example_of(key)));
    return;
  }
  if (value.is_scalar()) return check_scalar(value, key, diagnostics);
  if (value.is_map() && key.keys != nullptr) check_map(value, *key.keys, diagnostics);
  if (value.is_sequence() && key.items != nullptr) {
    for (const Value& item : value.items) {
      if (item.is_map()) {
        check_map(item, *key.items, diagnostics);
      } else {
        diagnostics.error(item.where(), fmt::format("{}: an item is {}: each is a map with the keys {}",
                                                    key.name, name_of(item.kind), words(key.items->names())));
      }
    }
  }
}

// A key that has an effect beside certain words of another key alone.
void check_beside(const Value& map, const Schema& schema, const Member& member, const KeySpec& key,
                  Diagnostics& diagnostics) {
  if (key.beside.empty() || member.value.is_null()) return;
  const Value* other = map.find(key.beside);
  const KeySpec* spec = schema.find(key.beside);
  const std::string word = other != nullptr && other->is_scalar() ? other->text
                           : spec != nullptr                      ? spec->default_value
                                                                  : std::string();
  for (const std::string& fitting : key.beside_words) {
    if (word == fitting) return;
  }
  diagnostics.warning(member.where, fmt::format("{}: has no effect beside '{}: {}'; it belongs to {}",
                                                key.name, key.beside, word, words(key.beside_words)));
}

void check_map(const Value& map, const Schema& schema, Diagnostics& diagnostics) {
  if (!map.is_map()) {
    diagnostics.error(map.where(), fmt::format("{}: is {}: it takes a map with the keys {}", schema.name,
                                               name_of(map.kind), words(schema.names())));
    return;
  }
  for (const Member& member : map.members) {
    if (const KeySpec* key = schema.find(member.key)) {
      check_value(member.value, *key, diagnostics);
      check_beside(map, schema, member, *key, diagnostics);
      continue;
    }
    const NotModelled* later = nullptr;
    for (const NotModelled& candidate : schema.not_modelled) {
      if (candidate.name == member.key) later = &candidate;
    }
    if (later != nullptr) {
      diagnostics.error(member.where, fmt::format("'{}' is not modelled yet; nearest is '{}'", later->name,
                                                  later->nearest));
    } else {
      diagnostics.error(member.where,
                        fmt::format("unknown key '{}' in {}: allowed are {}{}", member.key, schema.name,
                                    words(schema.names()), did_you_mean(member.key, schema.names())));
    }
  }
  for (const KeySpec& key : schema.keys) {
    if (key.required && map.find(key.name) == nullptr) {
      diagnostics.error(map.where(), fmt::format("{} has no '{}', which is required ({})", schema.name,
                                                 key.name, key.description));
    }
  }
}

KeySpec key(std::string name, Type type, std::string description, std::string default_value,
            std::string example) {
  KeySpec made;
  made.name = std::move(name);
  made.type = type;
  made.description = std::move(description);
  made.default_value = std::move(default_value);
  made.example = std::move(example);
  return made;
}

KeySpec required(KeySpec made) {
  made.required = true;
  return made;
}

KeySpec beside(std::string other, std::vector<std::string> words, KeySpec made) {
  made.beside = std::move(other);
  made.beside_words = std::move(words);
  return made;
}

}  // namespace foretrain

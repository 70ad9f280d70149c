#include "sim/input/fields.hpp"

#include <variant>

#include "sim/base/parse_units.hpp"
#include "sim/input/scalars.hpp"

namespace foretrain {
namespace {

// The table of a key that takes no map.
const Schema no_keys;

}  // namespace

const Value* Fields::find(std::string_view key) const {
  return map_ == nullptr ? nullptr : map_->find(key);
}

SourceLocation Fields::where(std::string_view key) const {
  if (const Value* value = find(key)) return value->where();
  return map_ == nullptr ? SourceLocation{} : map_->where();
}

template <typename T, typename Parse>
std::optional<T> Fields::read(std::string_view key, Parse parse) const {
  if (const Value* value = find(key); value != nullptr && value->is_scalar()) {
    const std::variant<T, UnitError> parsed = parse(value->text);
    if (const T* result = std::get_if<T>(&parsed)) return *result;
  }
  const KeySpec* spec = schema_.find(key);
  if (spec == nullptr || spec->default_value.empty()) return std::nullopt;
  const std::variant<T, UnitError> parsed = parse(spec->default_value);
  if (const T* result = std::get_if<T>(&parsed)) return *result;
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view key) const {
  return read<std::string>(
      key, [](const std::string& text) { return std::variant<std::string, UnitError>(text); });
}

std::optional<double> Fields::number(std::string_view key) const {
  return read<double>(key, [](const std::string& text) { return parse_plain_number(text); });
}

std::optional<std::int64_t> Fields::integer(std::string_view key) const {
  return read<std::int64_t>(key, [](const std::string& text) { return parse_integer(text); });
}

std::optional<bool> Fields::boolean(std::string_view key) const {
  return read<bool>(key, [](const std::string& text) { return parse_boolean(text); });
}

std::optional<Time> Fields::time(std::string_view key) const {
  return read<Time>(key, [](const std::string& text) { return parse_time(text); });
}

std::optional<JobTime> Fields::job_time(std::string_view key) const {
  return read<JobTime>(key, [](const std::string& text) { return parse_job_time(text); });
}

std::optional<Bytes> Fields::bytes(std::string_view key) const {
  return read<Bytes>(key, [](const std::string& text) { return parse_bytes(text); });
}

std::optional<Rate> Fields::rate(std::string_view key) const {
  return read<Rate>(key, [](const std::string& text) { return parse_rate(text); });
}

std::optional<Interval> Fields::interval(std::string_view key) const {
  return read<Interval>(key, [](const std::string& text) { return parse_interval(text); });
}

std::optional<double> Fields::power(std::string_view key) const {
  return read<double>(key, [](const std::string& text) { return parse_power(text); });
}

std::optional<double> Fields::gpu_hours(std::string_view key) const {
  return read<double>(key, [](const std::string& text) { return parse_gpu_hours(text); });
}

Fields Fields::fields(std::string_view key) const {
  const KeySpec* spec = schema_.find(key);
  const Value* value = find(key);
  const bool is_map = value != nullptr && value->is_map();
  return {is_map ? value : nullptr, spec != nullptr && spec->keys != nullptr ? *spec->keys : no_keys};
}

}  // namespace foretrain

// The values of one map by key, with the defaults of its table. The map has been checked (check_map): a value
// that was found wrong reads as its default, so that a reader goes on and finds the other errors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/units.hpp"
#include "sim/input/document.hpp"
#include "sim/input/job.hpp"
#include "sim/input/schema.hpp"

namespace foretrain {

class Fields {
 public:
  // Both must outlive this. A null map reads as one without keys.
  Fields(const Value* map, const Schema& schema) : map_(map), schema_(schema) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // The value as it stands in the file, null where it is not there.
  const Value* find(std::string_view key) const;
  // Where the key's value stands, else the map.
  SourceLocation where(std::string_view key) const;

  // Each is the value in the file, else the table's default, else nothing.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<Time> time(std::string_view key) const;
  std::optional<JobTime> job_time(std::string_view key) const;
  std::optional<Bytes> bytes(std::string_view key) const;
  std::optional<Rate> rate(std::string_view key) const;
  std::optional<Interval> interval(std::string_view key) const;
  std::optional<double> power(std::string_view key) const;  // watts
  std::optional<double> gpu_hours(std::string_view key) const;
  // The map below a key with its table; one without keys where it is not there.
  Fields fields(std::string_view key) const;

 private:
  template <typename T, typename Parse>
  std::optional<T> read(std::string_view key, Parse parse) const;

  const Value* map_;
  const Schema& schema_;
};

// The value of an enum whose name_of() is the word; the first where there is none.
template <typename Enum>
Enum word_of(const std::optional<std::string>& word, std::initializer_list<Enum> all) {
  for (const Enum candidate : all) {
    if (word == name_of(candidate)) return candidate;
  }
  return *all.begin();
}

}  // namespace foretrain

// Two archives over one description of a struct, so that what is written and what is read cannot drift apart:
//   template <typename Archive> void describe(Archive& a, Entry& e) { a.required("batch", e.batch); ... }
// ArchiveWriter leaves out members that have their default; ArchiveReader is strict: unknown, missing and
// mistyped members are findings with a JSON pointer.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/input/diagnostics.hpp"
#include "sim/input/json_tree.hpp"

namespace foretrain {

template <typename T>
concept JsonScalar = std::is_arithmetic_v<T> || std::is_same_v<T, std::string>;

class ArchiveWriter {
 public:
  using Json = nlohmann::ordered_json;

  template <typename T>
  void required(const char* name, T& value) {
    out_[name] = make(value);
  }
  template <typename T>
  void optional(const char* name, T& value) {
    Json written = make(value);
    T fallback{};
    if (written != make(fallback)) out_[name] = std::move(written);
  }
  template <typename T>
  void optional(const char* name, T& value, const T& fallback) {
    if (!(value == fallback)) out_[name] = make(value);
  }
  // The members of an array by position.
  template <typename T>
  void element(T& value) {
    out_.push_back(make(value));
  }
  void begin_array() { out_ = Json::array(); }
  void check(bool, const char*) {}

  template <typename T>
  static Json make(T& value) {
    if constexpr (std::is_same_v<T, double>) {
      if (!std::isfinite(value)) throw Error(ErrorKind::failure, "a number to be written is not finite");
      return value;
    } else if constexpr (JsonScalar<T>) {
      return value;
    } else if constexpr (std::is_enum_v<T>) {
      return name_of(value);
    } else if constexpr (std::is_array_v<T>) {
      Json all = Json::array();
      for (auto& item : value) all.push_back(make(item));
      return all;
    } else {
      return make_object(value);
    }
  }

 private:
  template <typename T>
  static Json make_object(std::vector<T>& items) {
    Json all = Json::array();
    for (T& item : items) all.push_back(make(item));
    return all;
  }
  static Json make_object(std::map<std::string, std::string>& members) { return members; }
  template <typename T>
  static Json make_object(std::optional<T>& value) {
    return value ? make(*value) : Json();
  }
  template <typename T>
  static Json make_object(T& value) {
    ArchiveWriter inner;
    describe(inner, value);
    return std::move(inner.out_);
  }

  Json out_ = Json::object();
};

// The two kinds of JSON tree that an archive reads, by the same words.
namespace json {
inline const nlohmann::json* find(const nlohmann::json& at, const char* name) {
  const auto found = at.find(name);
  return found == at.end() ? nullptr : &*found;
}
inline const JsonNode* find(const JsonNode& at, const char* name) {
  return at.find(name);
}
inline bool boolean(const nlohmann::json& at) {
  return at.get<bool>();
}
inline bool boolean(const JsonNode& at) {
  return at.boolean();
}
inline double number(const nlohmann::json& at) {
  return at.get<double>();
}
inline double number(const JsonNode& at) {
  return at.number();
}
inline std::string_view text(const nlohmann::json& at) {
  return at.get_ref<const std::string&>();
}
inline std::string_view text(const JsonNode& at) {
  return at.text();
}
// None where it does not fit 64 bits with a sign.
inline std::optional<std::int64_t> integer(const nlohmann::json& at) {
  const bool is_large = at.is_number_unsigned() &&
                        at.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  return is_large ? std::nullopt : std::optional(at.get<std::int64_t>());
}
inline std::optional<std::int64_t> integer(const JsonNode& at) {
  return at.integer();
}
// Calls visit(key, value) for each member of an object.
template <typename Visit>
void for_members(const nlohmann::json& at, Visit visit) {
  for (const auto& [key, value] : at.items()) visit(key, value);
}
template <typename Visit>
void for_members(const JsonNode& at, Visit visit) {
  for (std::size_t i = 0; i < at.size(); ++i) visit(std::string(at[i].key()), at[i]);
}
}  // namespace json

template <typename Json>
class BasicArchiveReader {
 public:
  BasicArchiveReader(const Json& at, const std::string& file, Diagnostics& diagnostics)
      : at_(at), file_(file), diagnostics_(diagnostics) {}

  template <typename T>
  void required(const char* name, T& value) {
    if (!member(name, value) && at_.is_object()) report(fmt::format("'{}' is missing", name));
  }
  template <typename T>
  void optional(const char* name, T& value) {
    member(name, value);
  }
  template <typename T>
  void optional(const char* name, T& value, const T& fallback) {
    if (!member(name, value)) value = fallback;
  }
  template <typename T>
  void element(T& value) {
    if (!at_.is_array()) return;
    if (index_ < at_.size()) {
      BasicArchiveReader(at_[index_], file_, diagnostics_, this, nullptr, index_).read(value);
    } else {
      report(fmt::format("has {} elements, too few", at_.size()));
    }
    ++index_;
  }
  void begin_array() { is_array_ = true; }
  // A condition on the values read so far, asked where all of them could be read.
  void check(bool holds, const char* problem) {
    if (!holds && diagnostics_.error_count() == errors_before_) report(problem);
  }

  template <typename T>
  void read(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!at_.is_boolean()) return mistyped("true or false");
      value = json::boolean(at_);
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!at_.is_number()) return mistyped("a number");
      value = json::number(at_);
      if (!std::isfinite(value)) report("is out of range");
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!at_.is_string()) return mistyped("a text");
      value = json::text(at_);
    } else if constexpr (std::is_enum_v<T>) {
      read_enum(value);
    } else if constexpr (std::is_array_v<T>) {
      if (!at_.is_array() || at_.size() != std::extent_v<T>) {
        return mistyped(fmt::format("a list of {}", std::extent_v<T>));
      }
      for (std::size_t i = 0; i < std::extent_v<T>; ++i) {
        BasicArchiveReader(at_[i], file_, diagnostics_, this, nullptr, i).read(value[i]);
      }
    } else {
      read_object(value);
    }
  }

  // An element of a list that is a member of the root, by itself; findings name its place as ever.
  template <typename T>
  static void read_element(const Json& element, const char* list, std::size_t index, T& value,
                           const std::string& file, Diagnostics& diagnostics) {
    const BasicArchiveReader root(element, file, diagnostics);
    const BasicArchiveReader whole(element, file, diagnostics, &root, list, 0);
    BasicArchiveReader(element, file, diagnostics, &whole, nullptr, index).read(value);
  }

  void report(const std::string& what) const {
    const std::string place = pointer();
    diagnostics_.error({file_}, fmt::format("{}: {}", place.empty() ? "/" : place, what));
  }

  // "/operators/17/passes/0"
  std::string pointer() const {
    if (parent_ == nullptr) return {};
    return parent_->pointer() + '/' + (name_ != nullptr ? std::string(name_) : std::to_string(place_));
  }

 private:
  BasicArchiveReader(const Json& at, const std::string& file, Diagnostics& diagnostics,
                     const BasicArchiveReader* parent, const char* name, std::size_t place)
      : at_(at), file_(file), diagnostics_(diagnostics), parent_(parent), name_(name), place_(place) {}

  template <typename T>
  bool member(const char* name, T& value) {
    const Json* found = json::find(at_, name);
    if (found == nullptr) return false;
    ++known_;
    BasicArchiveReader(*found, file_, diagnostics_, this, name, 0).read(value);
    return true;
  }

  template <typename T>
  void read_integer(T& value) {
    if (!at_.is_number_integer()) return mistyped("a whole number");
    const std::optional<std::int64_t> number = json::integer(at_);
    if (!number || *number < std::numeric_limits<T>::min() || *number > std::numeric_limits<T>::max()) {
      return report("is out of range");
    }
    value = static_cast<T>(*number);
  }

  // The words of an enumeration are the name_of each of its all_values.
  template <typename T>
  void read_enum(T& value) {
    if (!at_.is_string()) return mistyped("a text");
    const std::string_view word = json::text(at_);
    std::string allowed;
    for (const T candidate : all_values(T{})) {
      if (word == name_of(candidate)) {
        value = candidate;
        return;
      }
      allowed += (allowed.empty() ? "" : ", ") + std::string(name_of(candidate));
    }
    report(fmt::format("'{}' is unknown: allowed are {}", word, allowed));
  }

  template <typename T>
  void read_object(std::vector<T>& items) {
    if (!at_.is_array()) return mistyped("a list");
    items.resize(at_.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      BasicArchiveReader(at_[i], file_, diagnostics_, this, nullptr, i).read(items[i]);
    }
  }
  template <typename T>
  void read_object(std::optional<T>& value) {
    value.reset();
    if (!at_.is_null()) read(value.emplace());
  }
  void read_object(std::map<std::string, std::string>& members) {
    if (!at_.is_object()) return mistyped("an object");
    json::for_members(at_, [&](const std::string& key, const Json& value) {
      BasicArchiveReader(value, file_, diagnostics_, this, key.c_str(), 0).read(members[key]);
    });
  }
  template <typename T>
  void read_object(T& value) {
    if (!at_.is_object() && !at_.is_array()) return mistyped("an object or a list");
    describe(*this, value);
    if (is_array_ != at_.is_array()) return mistyped(is_array_ ? "a list" : "an object");
    if (is_array_ ? at_.size() > index_ : at_.size() > known_) report_unknown(value);
  }

  // Reads once more, slowly, to name the member that nobody asked for.
  template <typename T>
  void report_unknown(T&) {
    if (is_array_) return report(fmt::format("has {} elements, too many", at_.size()));
    T written{};
    JsonNames names;
    describe(names, written);
    json::for_members(at_, [&](const std::string& key, const Json&) {
      if (!names.contains(key)) report(fmt::format("has the unknown member '{}'", key));
    });
  }

  struct JsonNames {
    std::vector<std::string> all;
    template <typename T>
    void required(const char* name, T&) {
      all.emplace_back(name);
    }
    template <typename T>
    void optional(const char* name, T&) {
      all.emplace_back(name);
    }
    template <typename T>
    void optional(const char* name, T&, const T&) {
      all.emplace_back(name);
    }
    template <typename T>
    void element(T&) {}
    void begin_array() {}
    void check(bool, const char*) {}
    bool contains(const std::string& name) const {
      for (const std::string& known : all) {
        if (known == name) return true;
      }
      return false;
    }
  };

  void mistyped(const std::string& wanted) const {
    report(fmt::format("is {} where {} belongs", at_.type_name(), wanted));
  }

  const Json& at_;
  const std::string& file_;
  Diagnostics& diagnostics_;
  const BasicArchiveReader* parent_ = nullptr;
  const char* name_ = nullptr;
  std::size_t place_ = 0;
  std::size_t errors_before_ = diagnostics_.error_count();
  std::size_t known_ = 0, index_ = 0;
  bool is_array_ = false;
};

using ArchiveReader = BasicArchiveReader<nlohmann::json>;

}  // namespace foretrain

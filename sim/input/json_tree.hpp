// JSON (RFC 8259) as a tree for large files of ours: a profile of 3 MB must be read within the few
// milliseconds that a simulation of one node takes. Strict: duplicate keys, numbers out of range, depth over
// a limit and trailing text are errors with line and column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/input/diagnostics.hpp"

namespace foretrain {

// One value; it lives as long as its tree and the text that the tree was read from.
class JsonNode {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };

  bool is_null() const { return kind_ == Kind::null; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_number() const { return kind_ == Kind::integer || kind_ == Kind::number; }
  bool is_number_integer() const { return kind_ == Kind::integer; }  // written as one, and fits 64 bits
  bool is_string() const { return kind_ == Kind::string; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_object() const { return kind_ == Kind::object; }
  const char* type_name() const;

  std::int64_t integer() const { return integer_; }
  double number() const { return kind_ == Kind::integer ? static_cast<double>(integer_) : number_; }
  bool boolean() const { return integer_ != 0; }
  // Of a string; empty otherwise.
  std::string_view text() const { return is_string() ? std::string_view(text_, size_) : std::string_view(); }

  // Of an array or object; 0 otherwise.
  std::size_t size() const { return is_array() || is_object() ? size_ : 0; }
  const JsonNode& operator[](std::size_t index) const { return children_[index]; }
  // The member of an object, null where there is none.
  const JsonNode* find(std::string_view key) const;
  // The key under which this stands in its object.
  std::string_view key() const { return key_; }

 private:
  friend class JsonParser;
  Kind kind_ = Kind::null;
  std::uint32_t size_ = 0;
  union {
    std::int64_t integer_ = 0;
    double number_;
    const char* text_;
    const JsonNode* children_;
  };
  std::string_view key_;
};

class JsonTree {
 public:
  // Called for each element of a list that is a member of the root object, in order. Where it answers true,
  // it has taken what it needs: the element is not kept, the list ends up shorter, and its memory serves the
  // next one.
  using Consumer = std::function<bool(std::string_view member, std::size_t index, const JsonNode& element)>;

  // Called before an element of such a list is read, with the text from its first character on: how many
  // bytes of it the element takes where it is not wanted, which are then passed over unread; 0 to read it.
  using Skipper = std::function<std::size_t(std::string_view member, std::string_view rest)>;

  // None, and a finding, where the text is no JSON. The text must outlive the tree.
  static std::optional<JsonTree> parse(std::string_view text, const std::string& file,
                                       Diagnostics& diagnostics, const Consumer& consumer = {},
                                       const Skipper& skipper = {});

  const JsonNode& root() const { return *root_; }

 private:
  friend class JsonParser;
  std::unique_ptr<JsonNode> root_ = std::make_unique<JsonNode>();
  std::vector<std::unique_ptr<std::byte[]>> blocks_;  // of nodes
  std::deque<std::string> unescaped_;                 // strings that are not the text's own bytes
};

}  // namespace foretrain

#include "sim/input/json_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <type_traits>

namespace foretrain {
namespace {

constexpr int deepest = 64;
constexpr std::size_t block_nodes = 4096;

// What is wrong and at which byte; ends the parsing.
struct Broken {
  std::size_t byte;
  std::string what;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& out, unsigned code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

}  // namespace

class JsonParser {
 public:
  JsonParser(std::string_view text, JsonTree& tree, const JsonTree::Consumer& consumer,
             const JsonTree::Skipper& skipper)
      : text_(text), tree_(tree), consumer_(consumer), skipper_(skipper) {}

  void parse() {
    *tree_.root_ = value(0);
    skip_space();
    if (at_ < text_.size()) fail("text follows the end of the value");
  }

 private:
  [[noreturn]] void fail(std::string what) const { throw Broken{at_, std::move(what)}; }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  JsonNode value(int depth) {
    skip_space();
    if (at_ >= text_.size()) fail("the text ends too early");
    switch (text_[at_]) {
      case '{':
        return container(depth, '}');
      case '[':
        return container(depth, ']');
      case '"': {
        JsonNode node;
        const std::string_view text = string();
        node.kind_ = JsonNode::Kind::string;
        node.text_ = text.data();
        node.size_ = static_cast<std::uint32_t>(text.size());
        return node;
      }
      case 't':
        return word("true", JsonNode::Kind::boolean, 1);
      case 'f':
        return word("false", JsonNode::Kind::boolean, 0);
      case 'n':
        return word("null", JsonNode::Kind::null, 0);
      default:
        return number();
    }
  }

  JsonNode word(std::string_view word, JsonNode::Kind kind, int integer) {
    if (text_.substr(at_, word.size()) != word) fail("no value begins here");
    at_ += word.size();
    JsonNode node;
    node.kind_ = kind;
    node.integer_ = integer;
    return node;
  }

  void digits() {
    if (!is_digit(peek())) fail("a digit is missing");
    while (is_digit(peek())) ++at_;
  }

  JsonNode number() {
    const std::size_t begin = at_;
    if (peek() == '-') ++at_;
    if (!is_digit(peek())) fail("no value begins here");
    if (peek() == '0') {
      ++at_;
    } else {
      digits();
    }
    bool is_integer = true;
    if (peek() == '.') {
      is_integer = false;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      is_integer = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const char *first = text_.data() + begin, *last = text_.data() + at_;
    JsonNode node;
    if (is_integer && std::from_chars(first, last, node.integer_).ec == std::errc()) {
      node.kind_ = JsonNode::Kind::integer;
      return node;
    }
    double read = 0;
    const auto [end, code] = std::from_chars(first, last, read);
    // Out of range on the side of zero is no error: strtod tells which side it is.
    if (code == std::errc::result_out_of_range) read = std::strtod(std::string(first, last).c_str(), nullptr);
    const bool is_read = code == std::errc() || code == std::errc::result_out_of_range;
    if (!is_read || end != last || !std::isfinite(read)) {
      at_ = begin;
      fail(fmt::format("the number '{}' is out of range", std::string_view(first, last)));
    }
    node.kind_ = JsonNode::Kind::number;
    node.number_ = read;
    return node;
  }

  std::string_view string() {
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a control character stands in a text");
      ++at_;
    }
    if (at_ >= text_.size()) fail("the text ends within quotes");
    if (text_[at_] == '"') return text_.substr(begin, at_++ - begin);
    std::string& out = tree_.unescaped_.emplace_back(text_.substr(begin, at_ - begin));
    while (peek() != '"') {
      if (at_ >= text_.size()) fail("the text ends within quotes");
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a control character stands in a text");
      if (text_[at_] == '\\') {
        escape(out);
      } else {
        out += text_[at_++];
      }
    }
    ++at_;
    return out;
  }

  unsigned hexadecimal() {
    unsigned code = 0;
    const char* first = text_.data() + at_;
    if (at_ + 4 > text_.size() || std::from_chars(first, first + 4, code, 16).ptr != first + 4) {
      fail("\\u needs four hexadecimal digits");
    }
    at_ += 4;
    return code;
  }

  void escape(std::string& out) {
    static constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    ++at_;
    const char letter = peek();
    if (const std::size_t place = letters.find(letter); letter != '\0' && place != std::string_view::npos) {
      out += meant[place];
      ++at_;
      return;
    }
    if (letter != 'u') fail("this escape is unknown");
    ++at_;
    unsigned code = hexadecimal();
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const unsigned low = hexadecimal();
      if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair is missing");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code <= 0xdfff) {
      fail("half of a surrogate pair is missing");
    }
    append_utf8(out, code);
  }

  // Children gather on the stack until their number is known, then move to a block of their own.
  JsonNode container(int depth, char closing) {
    if (depth >= deepest) fail(fmt::format("nested deeper than {} levels", deepest));
    const bool is_object = closing == '}';
    const std::size_t base = stack_.size();
    std::size_t index = 0;
    ++at_;
    skip_space();
    if (peek() == closing) {
      ++at_;
    } else {
      while (true) {
        std::string_view key;
        if (is_object) key = member_key(base);
        if (depth == 0) member_ = key;
        if (depth == 1 && !is_object && skip_element()) {
          ++index;
        } else {
          const JsonNode* const free_before = free_;
          const std::size_t left_before = left_, blocks_before = tree_.blocks_.size();
          JsonNode child = value(depth + 1);
          child.key_ = key;
          if (depth == 1 && !is_object && consumer_ && consumer_(member_, index++, child)) {
            if (tree_.blocks_.size() == blocks_before) {
              free_ += free_before - free_;
              left_ = left_before;
            }
          } else {
            stack_.push_back(child);
          }
        }
        skip_space();
        if (peek() == closing) break;
        if (peek() != ',')
          fail(at_ < text_.size() ? fmt::format("',' or '{}' belongs here", closing)
                                  : std::string("the text ends too early"));
        ++at_;
      }
      ++at_;
    }
    JsonNode node;
    node.kind_ = is_object ? JsonNode::Kind::object : JsonNode::Kind::array;
    node.size_ = static_cast<std::uint32_t>(stack_.size() - base);
    node.children_ = store(base);
    return node;
  }

  bool skip_element() {
    if (!skipper_) return false;
    skip_space();
    const std::size_t bytes = skipper_(member_, text_.substr(at_));
    at_ += bytes;
    return bytes > 0;
  }

  std::string_view member_key(std::size_t base) {
    skip_space();
    if (peek() != '"') fail("a key in quotes belongs here");
    const std::size_t place = at_;
    const std::string_view key = string();
    const bool is_small = stack_.size() - base <= 64;  // larger ones are ours to write, not people's
    for (std::size_t i = base; is_small && i < stack_.size(); ++i) {
      if (stack_[i].key_ != key) continue;
      at_ = place;
      fail(fmt::format("the key '{}' is a duplicate", key));
    }
    skip_space();
    if (peek() != ':') fail("':' belongs here");
    ++at_;
    return key;
  }

  const JsonNode* store(std::size_t base) {
    const std::size_t count = stack_.size() - base;
    if (count == 0) return nullptr;
    if (count > left_) {
      const std::size_t size = std::max(block_nodes, count);
      // Not initialised: nodes are copied into it.
      tree_.blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size * sizeof(JsonNode)));
      free_ = reinterpret_cast<JsonNode*>(tree_.blocks_.back().get());
      left_ = size;
    }
    JsonNode* begin = free_;
    static_assert(std::is_trivially_destructible_v<JsonNode> &&
                  alignof(JsonNode) <= alignof(std::max_align_t));
    std::uninitialized_copy(stack_.begin() + static_cast<std::ptrdiff_t>(base), stack_.end(), begin);
    free_ += count;
    left_ -= count;
    stack_.resize(base);
    return begin;
  }

  std::string_view text_;
  JsonTree& tree_;
  const JsonTree::Consumer& consumer_;
  const JsonTree::Skipper& skipper_;
  std::string_view member_;  // of the root object, that is being read
  std::size_t at_ = 0;
  std::vector<JsonNode> stack_;
  JsonNode* free_ = nullptr;
  std::size_t left_ = 0;
};

const char* JsonNode::type_name() const {
  switch (kind_) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "boolean";
    case Kind::integer:
    case Kind::number:
      return "number";
    case Kind::string:
      return "string";
    case Kind::array:
      return "array";
    case Kind::object:
      return "object";
  }
  return "";
}

const JsonNode* JsonNode::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (std::size_t i = 0; i < size_; ++i) {
    if (children_[i].key_ == key) return &children_[i];
  }
  return nullptr;
}

std::optional<JsonTree> JsonTree::parse(std::string_view text, const std::string& file,
                                        Diagnostics& diagnostics, const Consumer& consumer,
                                        const Skipper& skipper) {
  JsonTree tree;
  try {
    JsonParser(text, tree, consumer, skipper).parse();
  } catch (const Broken& broken) {
    SourceLocation where{file, 1, 1};
    for (std::size_t i = 0; i < broken.byte && i < text.size(); ++i) {
      where.column = text[i] == '\n' ? 1 : where.column + 1;
      where.line += text[i] == '\n';
    }
    diagnostics.error(std::move(where), "not valid JSON: " + broken.what);
    return std::nullopt;
  }
  return tree;
}

}  // namespace foretrain

#include "sim/output/json_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/base/utf8.hpp"

namespace foretrain {
std::string shortest(double number) {
  if (number == 0) return "0";
  std::array<char, 32> digits{};
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return std::string(digits.data(), end);
}

std::string json_string(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    const char c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

JsonWriter::JsonWriter(TextSink sink, Layout layout) : sink_(std::move(sink)), layout_(layout) {}

void JsonWriter::begin_object() {
  open('{', true);
}
void JsonWriter::end_object() {
  close('}');
}
void JsonWriter::begin_array() {
  open('[', false);
}
void JsonWriter::end_array() {
  close(']');
}

void JsonWriter::open(char bracket, bool is_object) {
  before_element();
  sink_(std::string_view(&bracket, 1));
  levels_.push_back({is_object, true, {}});
}

void JsonWriter::close(char bracket) {
  const bool empty = levels_.back().empty;
  levels_.pop_back();
  if (!empty) new_line(levels_.size());
  sink_(std::string_view(&bracket, 1));
  if (levels_.empty()) sink_("\n");
}

void JsonWriter::new_line(std::size_t depth) {
  if (layout_ == Layout::indented) sink_('\n' + std::string(2 * depth, ' '));
}

void JsonWriter::before_element() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  if (!levels_.back().empty) sink_(",");
  levels_.back().empty = false;
  new_line(levels_.size());
}

void JsonWriter::key(std::string_view name) {
  before_element();
  levels_.back().key = name;
  sink_(json_string(name));
  sink_(layout_ == Layout::indented ? ": " : ":");
  after_key_ = true;
}

void JsonWriter::raw(std::string_view token) {
  before_element();
  sink_(token);
}

void JsonWriter::value(std::string_view text) {
  raw(json_string(text));
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) {
    throw Error(ErrorKind::failure,
                "the result has no finite value for " + where() +
                    ": this is a fault of the program, not of the input; please report it");
  }
  raw(shortest(number));
}

std::string JsonWriter::where() const {
  std::string path;
  for (const Level& level : levels_) {
    if (level.is_object) path += (path.empty() ? "" : ".") + level.key;
  }
  return '\'' + path + '\'';
}

}  // namespace foretrain

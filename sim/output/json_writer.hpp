// Writes JSON as a stream: members in the order of the calls, numbers in the fewest digits that read back to
// the same value, so that equal results are equal bytes.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

using TextSink = std::function<void(std::string_view)>;

class JsonWriter {
 public:
  enum class Layout { indented, compact };
  explicit JsonWriter(TextSink sink, Layout layout = Layout::indented);

  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  void key(std::string_view name);

  void value(std::string_view text);  // bytes that are no UTF-8 become U+FFFD
  void value(const char* text) { value(std::string_view(text)); }
  void value(double number);  // throws Error where it is no finite number
  void value(bool flag) { raw(flag ? "true" : "false"); }
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) void value(Integer number) { raw(std::to_string(number)); }
  void null() { raw("null"); }
  template <class T>
  void value(const std::optional<T>& content) {
    content ? value(*content) : null();
  }
  // A token that is JSON already.
  void raw(std::string_view token);

  template <class T>
  void member(std::string_view name, const T& content) {
    key(name);
    value(content);
  }

 private:
  struct Level {
    bool is_object = false;
    bool empty = true;
    std::string key;  // the last one, for messages
  };
  void before_element();
  void open(char bracket, bool is_object);
  void close(char bracket);
  void new_line(std::size_t depth);
  std::string where() const;

  TextSink sink_;
  Layout layout_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

// A finite number in the fewest digits that read back to the same double; "0" for minus zero.
std::string shortest(double number);
// Quoted and escaped.
std::string json_string(std::string_view text);

}  // namespace foretrain

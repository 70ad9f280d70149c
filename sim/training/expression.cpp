#include "sim/training/expression.hpp"

#include <charconv>
#include <vector>

#include "sim/base/spelling.hpp"

namespace foretrain {
namespace {

constexpr std::size_t max_length = 1000;
constexpr int max_depth = 32;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Recursive descent: comparison > sum > product > factor. The first error ends it.
class Parser {
 public:
  Parser(std::string_view text, const std::map<std::string, std::int64_t>& names)
      : text_(text), names_(names) {}

  std::variant<std::int64_t, ExpressionError> run() {
    if (text_.size() > max_length) return ExpressionError{"expression is longer than 1000 characters"};
    const std::int64_t value = comparison();
    skip_blanks();
    if (error_.empty() && at_ < text_.size()) fail("'" + std::string(text_.substr(at_)) + "' is left over");
    if (!error_.empty()) return ExpressionError{error_};
    return value;
  }

 private:
  void fail(std::string what) {
    if (error_.empty()) error_ = "'" + std::string(text_) + "' is no integer expression: " + std::move(what);
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool accept(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  std::int64_t comparison() {
    const std::int64_t left = sum();
    if (accept("==")) return left == sum();
    if (accept("!=")) return left != sum();
    if (accept("<=")) return left <= sum();
    if (accept(">=")) return left >= sum();
    if (accept("<")) return left < sum();
    if (accept(">")) return left > sum();
    return left;
  }

  std::int64_t sum() {
    std::int64_t value = product();
    while (error_.empty()) {
      bool overflow = false;
      if (accept("+")) {
        overflow = __builtin_add_overflow(value, product(), &value);
      } else if (accept("-")) {
        overflow = __builtin_sub_overflow(value, product(), &value);
      } else {
        break;
      }
      if (overflow) fail("it overflows");
    }
    return value;
  }

  std::int64_t product() {
    std::int64_t value = factor();
    while (error_.empty()) {
      if (accept("*")) {
        if (__builtin_mul_overflow(value, factor(), &value)) fail("it overflows");
      } else if (accept("/")) {
        value = divide(value, factor(), false);
      } else if (accept("%")) {
        value = divide(value, factor(), true);
      } else {
        break;
      }
    }
    return value;
  }

  std::int64_t divide(std::int64_t a, std::int64_t b, bool remainder) {
    if (!error_.empty()) return 0;
    if (b == 0) {
      fail("division by zero");
      return 0;
    }
    if (b == -1) {  // the smallest integer has no opposite
      std::int64_t opposite = 0;
      if (__builtin_sub_overflow(std::int64_t{0}, a, &opposite)) fail("it overflows");
      return remainder ? 0 : opposite;
    }
    if (remainder) return a % b;
    if (a % b != 0) fail(std::to_string(a) + " / " + std::to_string(b) + " leaves a remainder");
    return a / b;
  }

  std::int64_t factor() {
    if (depth_ >= max_depth) {
      fail("it is nested too deeply");
      return 0;
    }
    ++depth_;
    const std::int64_t value = primary();
    --depth_;
    return value;
  }

  std::int64_t primary() {
    if (accept("(")) {
      const std::int64_t value = comparison();
      if (error_.empty() && !accept(")")) fail("')' is missing");
      return value;
    }
    if (accept("-")) {
      std::int64_t value = factor();
      if (__builtin_sub_overflow(std::int64_t{0}, value, &value)) fail("it overflows");
      return value;
    }
    skip_blanks();
    const std::size_t begin = at_;
    if (at_ < text_.size() && is_digit(text_[at_])) return number();
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    if (at_ == begin) {
      fail(at_ < text_.size() ? "unexpected '" + std::string(1, text_[at_]) + "'"
                              : "something is missing at the end");
      return 0;
    }
    return value_of(std::string(text_.substr(begin, at_ - begin)));
  }

  std::int64_t number() {
    std::int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, code] = std::from_chars(text_.data() + at_, end, value);
    if (code != std::errc()) fail("a number is too large");
    at_ = static_cast<std::size_t>(stop - text_.data());
    if (at_ < text_.size() && (is_letter(text_[at_]) || text_[at_] == '.'))
      fail("only whole numbers are allowed");
    return value;
  }

  std::int64_t value_of(const std::string& name) {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [key, value] : names_) known.push_back(key);
    std::string what = "there is no parameter '" + name + "'";
    const std::string suggestion = did_you_mean(name, known);
    if (!suggestion.empty()) {
      what += suggestion;
    } else {
      what += known.empty() ? "; none is known here" : "; known are";
      for (const std::string& each : known) what += (each == known.front() ? " " : ", ") + each;
    }
    fail(std::move(what));
    return 0;
  }

  std::string_view text_;
  const std::map<std::string, std::int64_t>& names_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

}  // namespace

std::variant<std::int64_t, ExpressionError> evaluate(std::string_view text,
                                                     const std::map<std::string, std::int64_t>& names) {
  return Parser(text, names).run();
}

bool is_identifier(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return false;
  for (const char c : text)
    if (!is_letter(c) && !is_digit(c)) return false;
  return true;
}

}  // namespace foretrain

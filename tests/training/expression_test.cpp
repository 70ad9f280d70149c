#include "sim/training/expression.hpp"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

const std::map<std::string, std::int64_t> names = {{"width", 64}, {"stride", 2}, {"depth", 28}};

std::int64_t value_of(const std::string& text) {
  const auto result = evaluate(text, names);
  if (const auto* error = std::get_if<ExpressionError>(&result)) FAIL(error->what);
  return std::get<std::int64_t>(result);
}

std::string error_of(const std::string& text) {
  const auto result = evaluate(text, names);
  const auto* error = std::get_if<ExpressionError>(&result);
  return error ? error->what : "";
}

}  // namespace

TEST_CASE("integer expressions follow the usual precedence") {
  CHECK(value_of("42") == 42);
  CHECK(value_of("4*width") == 256);
  CHECK(value_of("1 + 2 * 3 - -4") == 11);
  CHECK(value_of("(depth - 4) / 6") == 4);
  CHECK(value_of("depth % 3") == 1);
  CHECK(value_of("8 / 2 / 2") == 2);
  CHECK(value_of("stride == 2") == 1);
  CHECK(value_of("1 + (stride >= 3)") == 1);
  CHECK(value_of("width != 32 + 32") == 0);
}

TEST_CASE("what is wrong with an expression is said") {
  CHECK(error_of("4*widht") ==
        "'4*widht' is no integer expression: there is no parameter 'widht', did you mean 'width'?");
  CHECK(error_of("7 / 2") == "'7 / 2' is no integer expression: 7 / 2 leaves a remainder");
  CHECK(error_of("1 / 0") == "'1 / 0' is no integer expression: division by zero");
  CHECK(error_of("1 +") == "'1 +' is no integer expression: something is missing at the end");
  CHECK(error_of("(1") == "'(1' is no integer expression: ')' is missing");
  CHECK(error_of("1 2") == "'1 2' is no integer expression: '2' is left over");
  CHECK(error_of("1.5") == "'1.5' is no integer expression: only whole numbers are allowed");
  CHECK(error_of("3x") == "'3x' is no integer expression: only whole numbers are allowed");
  CHECK(error_of("") == "'' is no integer expression: something is missing at the end");
  CHECK(error_of("9223372036854775807 + 1") ==
        "'9223372036854775807 + 1' is no integer expression: it overflows");
  CHECK(error_of("99999999999999999999").find("too large") != std::string::npos);
  CHECK(error_of("(-9223372036854775807 - 1) / -1").find("overflows") != std::string::npos);
}

TEST_CASE("hostile expressions end in an error, not in a crash") {
  CHECK(error_of(std::string(500, '(')).find("nested too deeply") != std::string::npos);
  CHECK(error_of(std::string(500, '-')).find("nested too deeply") != std::string::npos);
  CHECK(error_of(std::string(5000, '1')).find("longer than") != std::string::npos);
}

TEST_CASE("identifiers are letters, digits and underscores") {
  CHECK(is_identifier("width_2"));
  CHECK(is_identifier("_w"));
  CHECK_FALSE(is_identifier("2w"));
  CHECK_FALSE(is_identifier("a-b"));
  CHECK_FALSE(is_identifier(""));
}

// Integer expressions in model files: "4*width", "(depth - 4) / 6", "stride != 1".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace foretrain {

struct ExpressionError {
  std::string what;
};

// Numbers, names, + - * / %, comparisons (1 or 0) and parentheses, with the usual precedence. A division must
// come out even, so that no pixel or channel is lost unseen. Nesting and length are bounded; an overflow is
// an error.
std::variant<std::int64_t, ExpressionError> evaluate(std::string_view text,
                                                     const std::map<std::string, std::int64_t>& names);

// Whether a text may name a parameter or a constant: a letter or '_', then letters, digits and '_'.
bool is_identifier(std::string_view text);

}  // namespace foretrain

// Laying out text for a terminal: widths, wrapping, tables, bars.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

// What a terminal can show.
struct TextStyle {
  int width = 80;
  bool colour = false;
  bool unicode = true;
};

// Columns that the text takes: code points, without the escape sequences that colour it.
int display_width(std::string_view text);
// Cut to `width` columns, the last of which then shows that something is missing.
std::string shortened(const std::string& text, int width, const TextStyle& style);
// The names in at most `width` columns each: where one is longer, what all begin with is left out, and names
// that would then be cut to the same text keep their ends.
std::vector<std::string> distinct_names(std::vector<std::string> names, int width, const TextStyle& style);
// Lines of at most `width` columns, broken at spaces; the first starts with `first`, the others with `next`.
std::string wrapped(std::string_view text, int width, std::string_view first, std::string_view next);

enum class Ink { plain, bold, dim, red, green, yellow, blue, magenta, cyan };
std::string inked(const std::string& text, Ink ink, const TextStyle& style);

// Columns are as wide as their widest cell and two spaces apart. In `width` columns of the terminal, where
// they need more, the cells of one column are broken at spaces.
class TextTable {
 public:
  enum class Align { left, right };
  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text(std::string_view indent = "") const { return text(indent, 0, 0); }
  std::string text(std::string_view indent, int width, std::size_t wraps) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `total` cells shared out in proportion to the parts, by largest remainders: the sum is exact.
std::vector<int> shares(const std::vector<double>& parts, int total);

}  // namespace foretrain

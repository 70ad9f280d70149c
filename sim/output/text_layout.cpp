#include "sim/output/text_layout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace foretrain {
namespace {

bool starts_code_point(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

const char* escape_of(Ink ink) {
  switch (ink) {
    case Ink::plain:
      return "";
    case Ink::bold:
      return "\x1b[1m";
    case Ink::dim:
      return "\x1b[2m";
    case Ink::red:
      return "\x1b[31m";
    case Ink::green:
      return "\x1b[32m";
    case Ink::yellow:
      return "\x1b[33m";
    case Ink::blue:
      return "\x1b[34m";
    case Ink::magenta:
      return "\x1b[35m";
    case Ink::cyan:
      return "\x1b[36m";
  }
  return "";
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    if (starts_code_point(text[i])) ++width;
  }
  return width;
}

std::string shortened(const std::string& text, int width, const TextStyle& style) {
  if (display_width(text) <= width) return text;
  std::size_t end = 0;
  for (int kept = 0; end < text.size(); ++end) {
    if (starts_code_point(text[end]) && ++kept == width) break;
  }
  return text.substr(0, end) + (style.unicode ? "\u2026" : "~");
}

std::vector<std::string> distinct_names(std::vector<std::string> names, int width, const TextStyle& style) {
  const auto fits = [&](const std::string& name) { return display_width(name) <= width; };
  if (std::all_of(names.begin(), names.end(), fits)) return names;
  const std::string mark = style.unicode ? "\u2026" : "~";
  std::size_t common = names.size() < 2 ? 0 : names[0].size();
  for (const std::string& name : names) {
    const auto differs = std::mismatch(names[0].begin(), names[0].end(), name.begin(), name.end()).first;
    common = std::min(common, static_cast<std::size_t>(differs - names[0].begin()));
  }
  // Whole words only.
  while (common > 0 && std::string_view("-_ (").find(names[0][common - 1]) == std::string_view::npos)
    --common;
  std::vector<std::string> cut;
  for (std::string& name : names) {
    if (common > 0) name = mark + name.substr(common);
    cut.push_back(shortened(name, width, style));
  }
  std::vector<std::string> distinct = cut;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (fits(names[i]) || std::count(cut.begin(), cut.end(), cut[i]) == 1) continue;
    std::size_t begin = names[i].size();
    for (int kept = 0; begin > 0 && kept < width - 1;) {
      if (starts_code_point(names[i][--begin])) ++kept;
    }
    distinct[i] = mark + names[i].substr(begin);
  }
  return distinct;
}

std::string wrapped(std::string_view text, int width, std::string_view first, std::string_view next) {
  std::string out(first);
  int column = display_width(first);
  bool at_start = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!at_start && column + 1 + display_width(word) > width) {
      out += '\n';
      out += next;
      column = display_width(next);
      at_start = true;
    }
    if (!at_start) {
      out += ' ';
      ++column;
    }
    out += word;
    column += display_width(word);
    at_start = false;
  }
  return out + '\n';
}

std::string inked(const std::string& text, Ink ink, const TextStyle& style) {
  if (!style.colour || ink == Ink::plain || text.empty()) return text;
  return escape_of(ink) + text + "\x1b[0m";
}

std::string TextTable::text(std::string_view indent, int width, std::size_t wraps) const {
  constexpr int gap = 2, least_room = 12;
  std::vector<int> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  const int whole = std::accumulate(widths.begin(), widths.end(), display_width(indent)) +
                    gap * (static_cast<int>(widths.size()) - 1);
  const bool breaks = width > 0 && whole > width;
  const int room = breaks ? std::max(least_room, widths[wraps] - (whole - width)) : 0;
  if (breaks) widths[wraps] = std::min(widths[wraps], room);
  std::string out;
  auto add = [&](const std::vector<std::string>& row) {
    std::string line(indent);
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line.append(gap, ' ');
      const std::string fill(static_cast<std::size_t>(std::max(0, widths[c] - display_width(row[c]))), ' ');
      line += columns_[c] == Align::right ? fill + row[c] : row[c] + fill;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  for (const auto& row : rows_) {
    if (!breaks || wraps >= row.size() || display_width(row[wraps]) <= room) {
      add(row);
      continue;
    }
    std::vector<std::string> cells = row;
    std::string lines = wrapped(row[wraps], room, "", "");
    for (std::size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n')) {
      cells[wraps] = lines.substr(0, end);
      lines.erase(0, end + 1);
      add(cells);
      for (std::string& cell : cells) cell.clear();
    }
  }
  return out;
}

std::vector<int> shares(const std::vector<double>& parts, int total) {
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<int> cells(parts.size(), 0);
  if (!(sum > 0)) return cells;
  std::vector<std::pair<double, std::size_t>> remainders;
  int left = total;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = parts[i] / sum * total;
    cells[i] = static_cast<int>(std::floor(exact));
    left -= cells[i];
    remainders.emplace_back(cells[i] - exact, i);  // the largest remainder sorts first
  }
  std::sort(remainders.begin(), remainders.end());
  for (int i = 0; i < left; ++i) ++cells[remainders[static_cast<std::size_t>(i)].second];
  return cells;
}

}  // namespace foretrain

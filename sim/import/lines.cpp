#include "sim/import/lines.hpp"

#include <charconv>
#include <cmath>

namespace foretrain {
namespace {

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.push_back(text.substr(0, end));
    const bool is_pair = text.substr(end).starts_with("\r\n");
    text.remove_prefix(std::min(text.size(), end + (is_pair ? 2 : 1)));
  }
  return lines;
}

std::string without_escapes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\b') {
      if (!out.empty()) out.pop_back();
    } else if (text[i] != '\x1b') {
      out += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == '[') {
      // Parameters and intermediate bytes, then one final byte from @ to ~.
      for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~'); ++i) {
      }
    } else if (i + 1 < text.size() && text[i + 1] == ']') {
      for (i += 2; i < text.size() && text[i] != '\a' && text[i] != '\x1b'; ++i) {
      }
      if (i < text.size() && text[i] == '\x1b') ++i;
    } else {
      ++i;  // two-byte sequences
      if (i < text.size() && (text[i] == '(' || text[i] == ')')) ++i;
    }
  }
  return out;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    if (is_blank(line[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < line.size() && !is_blank(line[end])) ++end;
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == separator && !is_quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  for (std::string& cell : cells) cell = std::string(trimmed(cell));
  return cells;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool read_number(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double read = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (wrong != std::errc() || end != text.data() + text.size() || !std::isfinite(read)) return false;
  value = read;
  return true;
}

}  // namespace foretrain

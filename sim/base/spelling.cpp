#include "sim/base/spelling.hpp"

#include <algorithm>
#include <cctype>

namespace foretrain {
namespace {

// Names longer than this are not compared: the table below grows with the product of the lengths.
constexpr std::size_t longest_name = 128;

char folded(char c) {
  return c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // distance(i, j) of the first i letters of a and the first j of b; only the last three rows are kept.
  std::vector<int> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool equal = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (equal ? 0 : 1)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::optional<std::string> closest_name(std::string_view word, const std::vector<std::string>& names) {
  if (word.empty() || word.size() > longest_name) return std::nullopt;
  const std::string* nearest = nullptr;
  int nearest_distance = 0;
  for (const std::string& name : names) {
    if (name.size() > longest_name) continue;
    const int distance = edit_distance(word, name);
    const auto allowed = std::max<std::size_t>(1, std::max(word.size(), name.size()) / 3);
    if (static_cast<std::size_t>(distance) > allowed) continue;
    if (nearest == nullptr || distance < nearest_distance) {
      nearest = &name;
      nearest_distance = distance;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const auto nearest = closest_name(word, names);
  return nearest ? ", did you mean '" + *nearest + "'?" : std::string();
}

}  // namespace foretrain
